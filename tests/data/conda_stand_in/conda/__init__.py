"""What conda-index takes out of conda, where conda is not installed: see conda_index_program.py."""
