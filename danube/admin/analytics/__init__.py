"""Parts of the analytics operations: live lag, published results, and jobs as child processes."""
