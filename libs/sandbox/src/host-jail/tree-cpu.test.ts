/** CPU time of processes that are no more than their own record, against real ones. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { treeCpuMs } from './tree-cpu.ts'

/** Leaves a child that computed as a zombie, says so, and waits. */
const NEVER_WAITS = `import os, sys, time
child = os.fork()
if child == 0:
    while time.process_time() < 0.2: pass
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print("on", flush=True)
sys.stdin.read()`

it.runIf(process.platform === 'linux')('counts what ended and is not waited for', async () => {
  const child = spawn('python3', ['-c', NEVER_WAITS], { stdio: ['pipe', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  // Two ticks of the kernel less.
  expect(treeCpuMs(child.pid ?? 0)).toBeGreaterThanOrEqual(180)
  child.stdin.end()
  await once(child, 'exit')
})
