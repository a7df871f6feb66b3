/** Two sandboxes side by side, and what remains when one is gone. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { agentOf, cgroupsOf, isContainer, processesOf, statusOf } from './host.ts'
import { onTargets, program } from './on-targets.ts'

/** On a quiet machine, a sandbox starts in half a second with gVisor, and an emulated machine in a second. */
const MANY_MS = 900_000

const neighbour = (...argv: string[]): ReturnType<typeof program> =>
  ({ ...program('neighbour'), argv }) as ReturnType<typeof program>

/** Properties that a neighbour must not change. */
const lookOf = (pid: number): unknown => {
  const line = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
  return { parent: fields[1], nice: fields[16], cpus: statusOf(pid, 'Cpus_allowed_list') }
}

/** What the daemon reports of a running container. */
function containerOf(slot: unknown): { id: string; merged: string } {
  const format = '{{.Id}} {{.GraphDriver.Data.MergedDir}}'
  const said = execFileSync('docker', ['inspect', '--format', format, `cofferdam-${String(slot)}`], {
    encoding: 'utf8',
  })
  const [id = '', merged = ''] = said.trim().split(' ')
  return { id, merged }
}

await onTargets((target) => {
  test('a sandbox neither sees nor touches another sandbox or the worker', async () => {
    const name = `neighbour-${process.pid}-${target.pid}`
    const waiting = target.start({ program: neighbour('wait', name) })
    const ref = await waiting.began
    await waiting.said('up')
    const pids = [...processesOf(target, ref), agentOf(target, ref), target.pid]
    // A virtual machine is one process of the host, so with the worker there are two.
    expect(pids.length).toBeGreaterThanOrEqual(target.kernel === 'guest' ? 2 : 3)
    const before = pids.map(lookOf)
    const hunted = await target.run({ program: neighbour('hunt', name, JSON.stringify(pids)) })
    expect({ ending: hunted.outcome.ending, stdout: hunted.stdout, stderr: hunted.stderr }).toEqual({
      ending: 'ok',
      stdout: '[]\n',
      stderr: '',
    })
    expect(pids.map(lookOf)).toEqual(before)
    // gVisor's ptrace platform stops its own threads at every system call.
    const alive = target.kernel === 'gvisor' ? /^[SRDt]/ : /^[SRD]/
    for (const pid of pids) expect(statusOf(pid, 'State')).toMatch(alive)
    waiting.stop('cancelled')
    expect((await waiting.gone).outcome.ending).toBe('cancelled')
  })

  test('a sandbox that is killed while it forks leaves nothing on the host', async () => {
    const attack = target.start({
      program: { ...program('fork_bomb'), argv: ['wait'] } as ReturnType<typeof program>,
      limits: { pids: 32 },
    })
    const ref = await attack.began
    await attack.said('waits')
    const slot = String(ref.handle['slot'])
    const agent = agentOf(target, ref)
    const groups = readFileSync(`/proc/${agent}/cgroup`, 'utf8')
    const container = isContainer(target) ? containerOf(ref.handle['slot']) : null
    // As root, both process sandboxes have their own cgroup if this host lets them create one.
    if (target.backend === 'process' && groups.includes(slot)) expect(cgroupsOf(ref)).not.toEqual([])
    // This makes the program start to fork. It is killed half a second later.
    attack.stop('cancelled')
    // On gVisor only memory bounds the bomb, but the executor waits long enough there too.
    await attack.gone
    expect(statusOf(agent, 'State')).toBe('')
    expect(cgroupsOf(ref)).toEqual([])
    const mounts = readFileSync('/proc/self/mounts', 'utf8')
    expect(mounts).not.toContain(slot)
    if (container !== null) {
      expect(mounts).not.toContain(container.id)
      expect(mounts).not.toContain(container.merged)
      expect(execFileSync('docker', ['ps', '-aq', '--no-trunc'], { encoding: 'utf8' })).not.toContain(
        container.id,
      )
    }
  })

  test(
    'twenty sandboxes in a row leave the worker as many descriptors as before',
    { timeout: MANY_MS },
    async () => {
      const count = (): number => readdirSync(`/proc/${target.pid}/fd`).length
      const once = (): Promise<unknown> => target.run({ program: neighbour('hunt', 'nobody', '[]') })
      let before = 0
      // The count includes descriptors of waiting sandboxes, and fewer wait right after an execution took
      // one. So take the largest of three counts.
      for (let turn = 0; turn < 3; turn++) {
        await once()
        before = Math.max(before, count())
      }
      for (let turn = 0; turn < 20; turn++) await once()
      // More sandboxes may wait now than before, and each further run takes one. Leaked descriptors would
      // stay.
      for (let turn = 0; turn < 10 && count() > before + 3; turn++) await once()
      expect(count()).toBeLessThanOrEqual(before + 3)
    },
  )
})
