/* Includes the file that EACH_TYPE names once for float and once for double.

   There REAL is the type, and NAME(x) is x with the type's suffix, _f or _d. */
#define PASTE(x, y) x##y
#define PASTE2(x, y) PASTE(x, y)
#define NAME(x) PASTE2(x, SUFFIX)

#define REAL float
#define SUFFIX _f
#include EACH_TYPE
#undef REAL
#undef SUFFIX

#define REAL double
#define SUFFIX _d
#include EACH_TYPE
#undef REAL
#undef SUFFIX

#undef NAME
#undef PASTE2
#undef PASTE
#undef EACH_TYPE
