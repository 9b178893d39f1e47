"""What the cluster agrees on: a store protocol with several implementations behind one contract suite."""
