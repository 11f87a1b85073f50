/*
 * engine_amx.h - included before every file of the engine: leaves out its kernels for AMX
 *
 * The AMX kernels of llama.cpp v0.5.0 are wrong. They write products of more than two dimensions, as recurrent and
 * hybrid models have, past their place (mmq.cpp counts bytes as floats): the results are no numbers, or the process
 * dies. With GCC 12 every product dies, because its _tile_loadconfig tells the optimiser of only 8 of the 64 bytes that
 * it reads. Without AMX the engine uses its AVX-512 kernels. tests/vectors checks the results of models. Look again
 * with the next version.
 */
#undef __AMX_INT8__
