/**
 * Keeps the worker's young generation as large as it is when this is imported (8 MiB of semi-space), so it is imported first. What
 * flows through a worker dies young, so V8 would let it grow for every flood of output up to 16 MiB times three, and never give it
 * back: of 80 MiB that the first GiB printed cost a worker, half was that. More and shorter collections instead.
 */
import { setFlagsFromString } from 'node:v8'

// V8 reads this factor each time it thinks about growing, so it may come after start-up.
setFlagsFromString('--semi-space-growth-factor=1')
