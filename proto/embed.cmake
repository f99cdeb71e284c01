# cmake -DFILE=... -DSOURCE=... -DNAME=... -P embed.cmake
# Writes FILE's bytes as C into SOURCE: const unsigned char NAME[] and const size_t NAME_len.
file(READ ${FILE} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${SOURCE} "#include <stddef.h>\n\nconst unsigned char ${NAME}[] = {${bytes}};\n"
    "const size_t ${NAME}_len = sizeof ${NAME};\n")
