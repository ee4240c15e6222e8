"""Virtual packages for AMD GPUs and ROCm: ``__amdgpu``, ``__amdgpu_arch`` and ``__rocm_userspace``."""
