/** The memory watch with a real process. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { watchMemory } from './memory-watch.ts'

const MiB = 1024 * 1024

/** Takes 64 MiB in a second thread after the first one has ended. */
const WITHOUT_FIRST_THREAD = `import ctypes, platform, sys, threading
def go_on():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z": pass
    held = bytearray(b"x") * (64 << 20)
    sys.stdin.read()
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall(60 if platform.machine() == "x86_64" else 93, 0)`

it.runIf(process.platform === 'linux')('measures a process whose first thread has ended', async () => {
  const root = spawn('/bin/sh', ['-c', 'exec 3<&0; python3 -c "$0" <&3 & wait $!', WITHOUT_FIRST_THREAD], {
    stdio: ['pipe', 'inherit', 'inherit'],
  })
  const watch = watchMemory(root.pid ?? 0, 32 * MiB, [])
  try {
    // 128 and the number of SIGKILL.
    expect(await once(root, 'exit')).toEqual([137, null])
    expect(watch.kills).toBeGreaterThan(0)
  } finally {
    watch.stop()
    root.stdin.end()
  }
})
