"""Two files of tests run at a time, so each has one thread: threads that wait for each other's cores make small models many times slower.
Runs draw no pictures, but for tests that look at them."""
import os

os.environ.setdefault('OMP_NUM_THREADS', '1') # read when torch is loaded, and by the processes that tests start

import electra_nb.lab.register # the tests use the package as its users do, with the lab
from quick import draw

draw(False)
