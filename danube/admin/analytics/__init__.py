"""What the analytics operations need of their own: live lag, published results, and jobs as child processes."""
