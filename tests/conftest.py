"""Two files of tests run at a time, so each has one thread: threads that wait for each other's cores make small models many times slower.
Runs draw no pictures, but for tests that look at them."""
import gc, os

os.environ.setdefault('OMP_NUM_THREADS', '1') # read when torch is loaded, and by the processes that tests start

import electra_nb.lab.register # the tests use the package as its users do, with the lab
from quick import draw

draw(False)
gc.set_threshold(50_000, 20, 100) # among the objects of so many libraries, looking for garbage takes an eighth of the time

def pytest_collection_finish(): gc.freeze()

def pytest_sessionfinish(): gc.unfreeze() # libraries tell on what is still there at the end
