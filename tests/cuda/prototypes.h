/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a prototype of ours could be called in the place of a library's, whose handles are
 * pointers to types of its own and whose enumerations are ints here. C++. */
#ifndef REMAT_TESTS_PROTOTYPES_H
#define REMAT_TESTS_PROTOTYPES_H

#ifdef __cplusplus
#include <type_traits>

template <class A, class B> constexpr bool same_argument()
{
    using X = std::remove_pointer_t<A>;
    using Y = std::remove_pointer_t<B>;
    if (sizeof(A) != sizeof(B) || std::is_pointer_v<A> != std::is_pointer_v<B>)
        return false;
    if constexpr (std::is_pointer_v<A> && !std::is_void_v<X> && !std::is_void_v<Y> &&
                  std::is_arithmetic_v<X> && std::is_arithmetic_v<Y>)
        return sizeof(X) == sizeof(Y);
    return true;
}

template <class R, class... A, class S, class... B>
constexpr bool same_function(R (*)(A...), S (*)(B...))
{
    if constexpr (sizeof...(A) != sizeof...(B))
        return false;
    else
        return sizeof(R) == sizeof(S) && (same_argument<A, B>() && ...);
}

#endif
#endif
