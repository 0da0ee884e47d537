/* SPDX-License-Identifier: MIT */
#include "tools/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/vec.h"

int outfile_write(const char *who, const char *path, const char *text, size_t length)
{
    char *draft = vec_format("%s.%ld.new", path, (long)getpid());
    int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : 0;

    for (size_t done = 0; r == 0 && done < length;) {
        ssize_t n = write(fd, text + done, length - done);
        if (n < 0 && errno != EINTR)
            r = -errno;
        else if (n > 0)
            done += (size_t)n;
    }
    if (r == 0 && fchmod(fd, 0644) != 0)
        r = -errno;
    if (fd >= 0 && close(fd) != 0 && r == 0)
        r = -errno;
    if (r == 0 && rename(draft, path) != 0)
        r = -errno;
    if (r < 0 && fd >= 0)
        (void)unlink(draft);
    if (r < 0)
        (void)fprintf(stderr, "%s: %s: %s\n", who, path, strerror(-r));
    free(draft);
    return r;
}
