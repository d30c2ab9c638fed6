# SPDX-License-Identifier: Apache-2.0
"""Processor time and memory of remat-compile by the size of the graph: chains of linear and gelu as text, compiled for
half of their transient memory: bench_scale.py BUILD [--nodes N,...] [--time-limit TIME]. A row: nodes, layers named
or not; with everything saved, with the budget, and for the refusal of one byte each CPU s, seconds and peak MB."""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

WIDTH, ROWS = 32, 64


def chain(nodes, named):
    lines = ['graph "chain"', f'input %x : f32[{ROWS},{WIDTH}]', f'input %targets : i32[{ROWS}]']
    last = '%x'
    for layer in range(nodes // 2):
        scope = f' scope "h.{layer}"' if named else ''
        lines += [
            f'parameter %w{layer} : f32[{WIDTH},{WIDTH}] = normal(0.0, 0.02)',
            f'%l{layer} : f32[{ROWS},{WIDTH}] = linear {last} %w{layer} phase forward{scope}',
            f'%g{layer} : f32[{ROWS},{WIDTH}] = gelu %l{layer} {{ approximate = 1 }} phase forward{scope}',
        ]
        last = f'%g{layer}'
    lines += [f'%loss : f32[] output, %lse : f32[{ROWS},1] = cross_entropy {last} %targets phase loss', 'output %loss']
    return '\n'.join(lines) + '\n'


def run(command, expected=0):
    """What one process prints, CPU s, seconds and peak MB."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with process.stdout:
        report = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if os.waitstatus_to_exitcode(status) != expected:
        raise SystemExit(f'{" ".join(map(str, command))}: status {status}')
    seconds = time.monotonic() - begin
    return report, usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss * 1024 / 1e6


def measure(build, folder, nodes, named, time_limit):
    graph = folder / 'chain.txt'
    graph.write_text(chain(nodes, named))
    command = [build / 'tools/remat-compile', graph, '--reserve', '0', '--format', 'json', '-o', folder / 'chain.plan']
    report, *saved = run(command)
    report = json.loads(report)
    persistent, arena = report['static_bytes'], report['arena_bytes']
    budget = ['--budget', str(persistent + (arena - persistent) // 2)]
    _, *planned = run(command + budget + (['--time-limit', time_limit] if time_limit else []))
    _, *refused = run(command + ['--budget', '1'], expected=3)
    return saved, planned, refused


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--nodes', default='1000,10000,30000,100000')
    parser.add_argument('--time-limit')
    given = parser.parse_args()
    print('| nodes | layers | everything saved: CPU s | s | MB | budget: CPU s | s | MB | refusal: CPU s | s | MB |')
    print('| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |')
    with tempfile.TemporaryDirectory() as folder:
        for nodes in map(int, given.nodes.split(',')):
            for named in (False, True):
                runs = measure(given.build, pathlib.Path(folder), nodes, named, given.time_limit)
                cells = ' | '.join(f'{cpu:.2f} | {seconds:.1f} | {mb:.0f}' for cpu, seconds, mb in runs)
                print(f'| {nodes} | {"named" if named else "none"} | {cells} |', flush=True)


main()
