raise KeyError("libamd_smi.so")
