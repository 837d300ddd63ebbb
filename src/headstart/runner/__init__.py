"""Where stages are performed: in this process, or in local worker processes."""
