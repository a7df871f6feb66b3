/** Identities of real processes. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { beforeAll, describe, expect, it } from 'vitest'
import {
  agentOf,
  descendants,
  identityOf,
  isRunning,
  killExactly,
  processesOf,
  thisPlace,
  waitGone,
} from './process-identity.ts'

/**
 * A program whose first thread ends, which /proc shows as a zombie. Another thread reports that and
 * continues.
 */
const WITHOUT_FIRST_THREAD = `import ctypes, platform, sys, threading
def go_on():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z": pass
    print("on", flush=True)
    sys.stdin.read()
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall(60 if platform.machine() == "x86_64" else 93, 0)`

const isLinux = process.platform === 'linux'

describe.runIf(isLinux)('the identity of a process', () => {
  let place = ''
  beforeAll(async () => {
    place = await thisPlace()
  })

  it('is the agent’s for our child, or for the child of the process with its namespaces', async () => {
    const holder = spawn('/bin/sh', ['-c', 'sleep 60 & echo $!; read line; kill $!'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const [told] = (await once(holder.stdout, 'data')) as [Buffer]
    const below = Number(told.toString('latin1'))
    expect(agentOf(holder.pid, holder.pid ?? 0, place)).toMatchObject({ pid: holder.pid, place })
    expect(agentOf(holder.pid, below, place)).toMatchObject({ pid: below })
    holder.stdin.end('\n')
    await once(holder, 'exit')
    expect(agentOf(holder.pid, below, place)).toBeNull()
  })

  it('is never that of a host process with the same pid as one in another namespace', async () => {
    const holder = spawn('/bin/sh', ['-c', 'read line'], { stdio: ['pipe', 'inherit', 'inherit'] })
    expect(agentOf(holder.pid, 1, place)).toBeNull()
    expect(agentOf(holder.pid, process.pid, place)).toBeNull()
    expect(agentOf(undefined, 1, place)).toBeNull()
    holder.stdin.end('\n')
    await once(holder, 'exit')
  })

  it('allows a kill only while it is the same process', async () => {
    const child = spawn('/bin/sh', ['-c', 'read line'], { stdio: ['pipe', 'inherit', 'inherit'] })
    const identity = identityOf(child.pid ?? 0, place)
    if (identity === null) throw new Error('no identity')
    killExactly({ ...identity, start: identity.start + 1 }, place)
    killExactly(identity, 'another place')
    expect(isRunning(identity, place)).toBe(true)
    killExactly(identity, place)
    expect(await waitGone(identity, place, 5000)).toBe(true)
  })

  it('counts as running until its last thread has ended', async () => {
    const child = spawn('python3', ['-c', WITHOUT_FIRST_THREAD], { stdio: ['pipe', 'pipe', 'inherit'] })
    await once(child.stdout, 'data')
    const pid = child.pid ?? 0
    const identity = identityOf(pid, place)
    if (identity === null) throw new Error('no identity')
    expect(isRunning(identity, place)).toBe(true)
    expect(descendants(process.pid)).toContain(pid)
    expect(processesOf(process.getuid?.() ?? 0)).toContain(pid)
    killExactly(identity, place)
    expect(await waitGone(identity, place, 5000)).toBe(true)
  })
})
