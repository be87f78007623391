/* tests/cuda/emulator/nvrtc.c - NVRTC's double: there to be opened. cuDNN's double compiles
 * nothing. */
int nvrtcVersion(int *major, int *minor);
int nvrtcVersion(int *major, int *minor)
{
    *major = MAJOR;
    *minor = 0;
    return 0;
}
