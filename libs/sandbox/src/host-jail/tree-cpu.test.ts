/** CPU time of real processes that have ended but are not reaped (zombies). */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { treeCpuMs } from './tree-cpu.ts'

/** Leaves a child as a zombie after it computed, reports that, and waits. */
const NEVER_WAITS = `import os, sys, time
child = os.fork()
if child == 0:
    while time.process_time() < 0.2: pass
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print("on", flush=True)
sys.stdin.read()`

it.runIf(process.platform === 'linux')('counts the CPU time of an unreaped child', async () => {
  const child = spawn('python3', ['-c', NEVER_WAITS], { stdio: ['pipe', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  // Minus two ticks of the kernel.
  expect(treeCpuMs(child.pid ?? 0)).toBeGreaterThanOrEqual(180)
  child.stdin.end()
  await once(child, 'exit')
})
