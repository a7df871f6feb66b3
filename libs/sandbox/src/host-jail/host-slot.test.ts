/** The host's proof that a cell is clean: real processes as leftovers, a pair of streams as the agent. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { DEFAULT_LIMITS, newSandboxId, newWorkerId, type SessionScope } from '@cofferdam/contract'
import { createGuestSession } from '../guest/index.ts'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { GuestSlot } from '../guest-slot.ts'
import { createHostSlot } from './host-slot.ts'
import { identityOf, thisPlace, type ProcessIdentity } from './process-identity.ts'

const READY = {
  protocol: 1,
  agentPython: '3.11.2',
  languages: {},
  cgroup: null,
  uidSplit: false,
  ownsPids: true,
  bootMs: 9,
}

/** Stands in for an agent, with two children. */
const agent = spawn('sh', ['-c', 'sleep 600 & sleep 600 & echo up; wait'], {
  detached: true,
  stdio: ['ignore', 'pipe', 'inherit'],
})
let identity: ProcessIdentity
beforeAll(async () => {
  await once(agent.stdout, 'data')
  identity = identityOf(agent.pid ?? 0, await thisPlace()) ?? expect.fail('it has ended')
})
afterAll(() => process.kill(-(agent.pid ?? 0), 'SIGKILL'))

/** A slot whose agent answers every request to clean up with this number of waiting processes. */
function slotThatSays(waiting: number): GuestSlot {
  const [readable, writable] = [new PassThrough(), new PassThrough()]
  const say = (type: string, body: Buffer): void => {
    const head = Buffer.alloc(5)
    head.write(type, 'latin1')
    head.writeUInt32LE(body.length, 1)
    readable.write(Buffer.concat([head, body]))
  }
  writable.on('data', () => say('Z', Buffer.from([0, waiting])))
  say('R', Buffer.from(JSON.stringify(READY)))
  const { memory_mib, cpus, pids, disk_mib } = DEFAULT_LIMITS
  return createHostSlot({
    spec: {
      slotId: newSandboxId(),
      owner: newWorkerId('abcabcabcabc'),
      language: 'none',
      preload: [],
      limits: { memory_mib, cpus, pids, disk_mib },
      cell: true,
    },
    session: createGuestSession({ readable, writable }),
    identity,
    cgroup: null,
    folder: null,
    disks: [],
    closed: new Promise(() => undefined),
    stderrTail: () => '',
    destroy: async () => undefined,
  })
}

const clean = async (waiting: number, keep: SessionScope = 'files'): Promise<void> => {
  const slot = slotThatSays(waiting)
  await slot.clean(keep, AbortSignal.timeout(10_000))
  await slot.destroy()
}

it('is clean with as many processes as its agent reports as waiting', async () => {
  await clean(2)
})

it.each([0, 1])('is not clean with two processes if its agent reports only %i', async (waiting) => {
  await expect(clean(waiting)).rejects.toMatchObject({ code: 'sandbox_lost' })
})

it('refuses an agent that reports more waiting processes than agents ever have', async () => {
  await expect(clean(3)).rejects.toMatchObject({ code: 'protocol_violation' })
})

it.each(['interpreter', 'processes'] as const)(
  'leaves the processes that a session of scope %s keeps to the agent',
  async (scope) => {
    await clean(0, scope)
  },
)
