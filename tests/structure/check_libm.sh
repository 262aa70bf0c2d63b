#!/bin/sh
# check_libm.sh LIBRARY NM - of libm the library's objects may use what IEEE 754 fixes (square roots, rounding, remainders, powers
# of two) and nothing else: exp, sin, pow and the like have other bits in other C libraries and on other processors, and those of
# kernels/functions.h have not. Excepted: what is drawn on pages (report/).
set -eu
library=$1
nm=$2
[ -n "$nm" ] || { echo "SKIPPED: no nm"; exit 77; }
exact='sqrt|floor|ceil|rint|nearbyint|trunc|round|lround|llround|lrint|llrint|fabs|fmax|fmin|fmod|ldexp|scalbn|frexp|modf|copysign|nextafter'
known="$exact|exp|exp2|exp10|expm1|log|log2|log10|log1p|logb|pow|sin|cos|sincos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|asinh|acosh|atanh"
known="$known|erf|erfc|lgamma|tgamma|cbrt|hypot|fma|remainder|remquo|fdim|ilogb|j0|j1|y0|y1"
drawings='sensitivity_svg'
"$nm" -u "$library" 2>/dev/null | awk -v exact="^(__)?($exact)[fl]?(_finite)?$" -v known="^(__)?($known)[fl]?(_finite)?$" -v drawings="^($drawings)[.]" '
    NF == 1 && /:$/ { object = $1 }
    NF == 2 && $2 ~ known {
        uses++
        if ($2 !~ exact && object !~ drawings) { print object " calls " $2 ", whose bits differ: kernels/functions.h"; failed = 1 }
    }
    END {
        if (uses < 10) { print "only " uses + 0 " uses of libm found: is this the library?"; failed = 1 }
        else if (!failed) { print uses " uses of libm, all exact" }
        exit failed
    }'
