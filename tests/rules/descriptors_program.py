# SPDX-License-Identifier: MIT
"""descriptors_program.py ACTION MOMENT: descriptors_program.c in Python, as a daemon does it."""
import ctypes
import os
import resource
import sys
import threading

STEPS, RECORDS, NUMBERS = 6, 4, 64
action, moment = sys.argv[1], int(sys.argv[2])
runtime = ctypes.CDLL("libcudart.so.13")
files = []
written = 0
wrong = 0


def act():
    if action == "close":
        os.closerange(3, 256)
    for i in range(2):
        files.append(os.open(f"records.{i}", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND))
    print("files have", *files)
    if action == "over":
        for number in range(NUMBERS):
            if number != 1 and number not in files:
                os.dup2(files[number % 2], number)
    if action == "full":
        resource.setrlimit(resource.RLIMIT_NOFILE, (NUMBERS, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        try:
            while True:
                os.dup(files[1])
        except OSError:
            pass
        if moment == 0:
            os.close(NUMBERS - 1) # the runtime needs one to open the driver


def step(size, depth):
    global wrong
    if depth > 0:
        return step(size, depth - 1)
    block, back = ctypes.c_void_p(), (ctypes.c_ubyte * 64)()
    results = [runtime.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(size)), runtime.cudaMemset(block, 7, ctypes.c_size_t(size)),
               runtime.cudaMemcpy(back, block, ctypes.c_size_t(64), 2), runtime.cudaFree(block)]
    wrong += results != [0] * 4 or bytes(back) != b"\7" * 64
    return None


def write_records():
    global written, wrong
    for _ in range(RECORDS if files else 0):
        for name, fd in zip("ab", files):
            record = f"{name}{written:06}\n".encode()
            wrong += os.write(fd, record) != 8 or os.pread(fd, 8, 8 * written) != record
        written += 1


if moment == 0 and action != "none":
    act()
for number in range(STEPS):
    step(1 << 20, 3 * number)
    thread = threading.Thread(target=step, args=(1 << 18, number))
    thread.start()
    thread.join()
    if (moment == 1 and number == 0) or (moment == 2 and number == STEPS // 2):
        act()
    if moment == 3 and number == STEPS // 2:
        thread = threading.Thread(target=act)
        thread.start()
        thread.join()
    write_records()
for i, name in enumerate("ab"):
    want = b"".join(f"{name}{number:06}\n".encode() for number in range(written))
    wrong += bool(files) and os.pread(files[i], 1 << 20, 0) != want
print(written, "records,", wrong, "wrong")
sys.stdout.flush()
os._exit(1 if wrong else 0)
