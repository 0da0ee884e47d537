#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The simulated runtime against NVIDIA's own headers and names, per version: 11.8, 12.4, 12.9, 13.

usage: runtime_headers.py BUILD

NVIDIA's packages come from PyPI (pinned, by hash) into BUILD/headers and stay there; nothing of them goes into the tree.
A program that is compiled with the headers of a version asks for the properties of the device and compares each field
with the attribute of the same meaning, so that a field at another place shows; bytes behind the structure must be
untouched. Every call that NVIDIA's library of a version exports must exist in the simulated one.
Exit 0 as the headers say, 1 different, 77 the registry does not answer.
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import nvidia_headers  # noqa: E402: found by the line above

PROGRAM = """
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>
static struct { struct cudaDeviceProp p; unsigned char behind[512]; } all;
static int wrong;
static void same(const char *field, long long found, enum cudaDeviceAttr which)
{
    int value = -1;
    if (cudaDeviceGetAttribute(&value, which, 0) != cudaSuccess || value != found) {
        printf("%s is %lld, its attribute is %d\\n", field, found, value);
        wrong = 1;
    }
}
#define SAME(field, attribute) same(#field, (long long)all.p.field, cudaDevAttr##attribute)
int main(void)
{
    size_t free_bytes = 0, total = 0;
    memset(&all, 0xaa, sizeof(all));
    if (cudaGetDeviceProperties(&all.p, 0) != cudaSuccess || cudaMemGetInfo(&free_bytes, &total) != cudaSuccess)
        return 2;
    for (size_t i = 0; i < sizeof(all.behind); i++)
        if (all.behind[i] != 0xaa && !wrong) {
            printf("a byte behind the structure is written\\n");
            wrong = 1;
        }
    if (strncmp(all.p.name, "Simulated device", 16) != 0 || all.p.totalGlobalMem != total) {
        printf("name or memory\\n");
        wrong = 1;
    }
    SAME(sharedMemPerBlock, MaxSharedMemoryPerBlock);
    SAME(regsPerBlock, MaxRegistersPerBlock);
    SAME(warpSize, WarpSize);
    SAME(memPitch, MaxPitch);
    SAME(maxThreadsPerBlock, MaxThreadsPerBlock);
    SAME(maxThreadsDim[2], MaxBlockDimZ);
    SAME(maxGridSize[2], MaxGridDimZ);
    SAME(totalConstMem, TotalConstantMemory);
    SAME(major, ComputeCapabilityMajor);
    SAME(minor, ComputeCapabilityMinor);
    SAME(textureAlignment, TextureAlignment);
    SAME(multiProcessorCount, MultiProcessorCount);
    SAME(canMapHostMemory, CanMapHostMemory);
    SAME(surfaceAlignment, SurfaceAlignment);
    SAME(concurrentKernels, ConcurrentKernels);
    SAME(pciBusID, PciBusId);
    SAME(asyncEngineCount, AsyncEngineCount);
    SAME(unifiedAddressing, UnifiedAddressing);
    SAME(memoryBusWidth, GlobalMemoryBusWidth);
    SAME(l2CacheSize, L2CacheSize);
    SAME(maxThreadsPerMultiProcessor, MaxThreadsPerMultiProcessor);
    SAME(streamPrioritiesSupported, StreamPrioritiesSupported);
    SAME(sharedMemPerMultiprocessor, MaxSharedMemoryPerMultiprocessor);
    SAME(regsPerMultiprocessor, MaxRegistersPerMultiprocessor);
    SAME(managedMemory, ManagedMemory);
    SAME(concurrentManagedAccess, ConcurrentManagedAccess);
    SAME(cooperativeLaunch, CooperativeLaunch);
    SAME(sharedMemPerBlockOptin, MaxSharedMemoryPerBlockOptin);
    SAME(maxBlocksPerMultiProcessor, MaxBlocksPerMultiprocessor);
    SAME(reservedSharedMemPerBlock, ReservedSharedMemoryPerBlock);
#if CUDART_VERSION < 13000
    SAME(clockRate, ClockRate);
    SAME(memoryClockRate, MemoryClockRate);
    SAME(deviceOverlap, GpuOverlap);
    SAME(computeMode, ComputeMode);
#endif
#if CUDART_VERSION >= 12000
    SAME(hostRegisterSupported, HostRegisterSupported);
    SAME(memoryPoolsSupported, MemoryPoolsSupported);
    SAME(memoryPoolSupportedHandleTypes, MemoryPoolSupportedHandleTypes);
    SAME(ipcEventSupported, IpcEventSupport);
#endif
    return wrong;
}
"""


def names(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].partition("@")[0] for line in out.splitlines() if "cuda" in line.split()[-1][:6]}


def check(folder, work, build, version, suffix):
    header = next(folder.rglob("cuda_runtime_api.h"))
    ours = build / "sim" / f"libcudart.so.{suffix}"
    program = work / f"properties-{version}"
    nvidia_headers.host_defines(work)
    program.with_suffix(".c").write_text(PROGRAM)
    subprocess.run([os.environ.get("CC", "cc"), "-w", "-isystem", header.parent, "-isystem", work, "-o", program,
                    program.with_suffix(".c"), ours], check=True)
    found = subprocess.run([program], capture_output=True, text=True,
                           env={**os.environ, "LD_LIBRARY_PATH": str(build / "sim")})
    print(f"{version}: properties {'as the header has them' if found.returncode == 0 else 'differ'}")
    print(found.stdout, end="")
    missing = names(next(folder.rglob(f"libcudart.so.{suffix}"))) - names(ours)
    for name in sorted(missing):
        print(f"{version}: {name} is exported there and not here")
    return found.returncode == 0 and not missing


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    work = build / "headers"
    work.mkdir(exist_ok=True)
    good = True
    for package, version, digest, suffix in nvidia_headers.VERSIONS:
        folder = nvidia_headers.fetch(work, package, version, digest)
        if not folder:
            print(f"SKIP: the registry does not give {package} {version}", file=sys.stderr)
            return 77
        good &= check(folder, work, build, version, suffix)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
