// Linked into every instrumented program by `./dev coverage`. Tests start programs in an empty environment, where LLVM's runtime would
// write its counters into the current folder: often the workspace under test. PROFILES is the path to write to, as LLVM_PROFILE_FILE.
void __llvm_profile_set_filename(const char *);

__attribute__((constructor)) static void name_profile(void) { __llvm_profile_set_filename(PROFILES); }
