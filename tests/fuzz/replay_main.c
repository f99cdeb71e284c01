/* replay_main.c - feeds every file of the folders (or files) named to a fuzz target, once.
 *
 * Stands in for libFuzzer where that is not built in.  Fails when there was nothing to feed, so
 * that a lost corpus is noticed. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *path) {
    fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
    exit(1);
}

static void replay_file(const char *path, size_t size) {
    /* Exactly as long as the input, so that a sanitizer sees a read past its end. */
    uint8_t *data = malloc(size);
    FILE *file = fopen(path, "rb");
    if (!file || (size && !data))
        die(path);
    if (fread(data, 1, size, file) != size) {
        errno = EIO;
        die(path);
    }
    fclose(file);
    /* A crash leaves this as the last line. */
    printf("%s (%zu bytes)\n", path, size);
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

static unsigned replay(const char *path) {
    struct stat st;
    struct dirent **entries = NULL;
    unsigned fed = 0;
    int n;
    if (stat(path, &st) != 0)
        die(path);
    if (S_ISREG(st.st_mode)) {
        replay_file(path, (size_t)st.st_size);
        return 1;
    }
    n = scandir(path, &entries, NULL, alphasort);
    if (n < 0)
        die(path);
    for (int i = 0; i < n; i++) {
        char *child = NULL;
        if (entries[i]->d_name[0] != '.') {
            if (asprintf(&child, "%s/%s", path, entries[i]->d_name) < 0)
                die(path);
            fed += replay(child);
            free(child);
        }
        free(entries[i]);
    }
    free(entries);
    return fed;
}

int main(int argc, char **argv) {
    unsigned fed = 0;
    for (int i = 1; i < argc; i++)
        fed += replay(argv[i]);
    if (fed == 0) {
        fprintf(stderr, "replay: no input found; usage: %s FOLDER|FILE...\n", argv[0]);
        return 1;
    }
    printf("%u inputs replayed\n", fed);
    return 0;
}
