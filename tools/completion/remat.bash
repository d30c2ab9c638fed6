# SPDX-License-Identifier: Apache-2.0
# Completion of remat's tools in bash: options and choices from the tool's --list-options, else files.
_remat()
{
    local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]}
    if [[ $word == = ]]; then # --option=
        word=
    elif [[ $option == = ]]; then # --option=word
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    local words=(cut -f 1)
    if [[ $word != -* ]]; then
        words=(awk -F '\t' -v "option=$option" '$1 == option && ($2 == "choice" || $4 ~ /[|]/) { gsub(/[|]/, " ", $4); print $4 }')
    fi
    mapfile -t COMPREPLY < <(compgen -W "$("$1" --list-options 2>/dev/null | "${words[@]}")" -- "$word")
}
complete -o default -F _remat remat-graph remat-compile remat-run remat-dump remat-solve
