/* stride.h - TEST_STRIDE: tests of many like cases, for example of every place that a file can be damaged at, take
 * every ninth of them under AddressSanitizer and in cross builds, whose programs an emulator runs: both make each case
 * some ten times as slow. Other builds take all. TEST_TURN(i, n): case i of like ones, n in a row, has its turn: where
 * TEST_STRIDE is 9, one in each row, another each time. */
#pragma once

#if defined __has_feature
#if __has_feature(address_sanitizer)
#define TEST_STRIDE 9
#endif
#elif defined __SANITIZE_ADDRESS__
#define TEST_STRIDE 9
#endif
#ifndef TEST_STRIDE
#define TEST_STRIDE 1
#endif

#define TEST_TURN(i, n) (TEST_STRIDE == 1 || (i) % (n) == (i) / (n) % (n))
