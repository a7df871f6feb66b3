/** Programs that attack the agent, its channel, or what the agent believes about their end. */
import { readFileSync } from 'node:fs'
import { createBackends, type BackendsConfigInput } from '@cofferdam/backends'
import type { WorkerId } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import { agentOf, crowdOf, isContainer, leftoversOf, processesNamed, slotsOf, statusOf } from './host.ts'
import { eventually, onTargets, program } from './on-targets.ts'
import { bash, python, sectionOf, startTarget, type Target } from './target.ts'

/** Every program here sleeps for at least a minute, so a run that ends sooner did not wait for it. */
const PROMPT_MS = 20_000

const marker = (): string => `attack${process.pid}x${Math.random().toString(36).slice(2)}`

/** Sweeps like the janitor of another worker. Returns how many sandboxes it destroyed. */
async function sweepAsAnHeir(victim: Target): Promise<number> {
  const config: BackendsConfigInput = { [victim.backend]: sectionOf(victim, victim.runtimeDir) }
  let destroyed = 0
  for (const heir of (await createBackends(config)).values()) {
    await using sweeper = heir
    destroyed += (await sweeper.sweep(victim.owner as WorkerId)).destroyed
  }
  return destroyed
}

await onTargets((target) => {
  test("forged frames to every descriptor, the agent's memory and terminals change nothing", async () => {
    const { outcome, stdout } = await target.run({ program: program('forge') })
    expect(outcome).toMatchObject({ ending: 'error', exitCode: 3 })
    const written = /^written (\[.*\])$/m.exec(stdout)?.[1]
    // gVisor shows what its first process has open: pipes of the program's own run, never the channel.
    if (target.kernel === 'gvisor') expect(written).not.toMatch(/host:|socket:|\/mem/)
    else expect(written).toBe('[]')
    expect(outcome.value).toBeUndefined()
    if (target.capabilities?.measures.includes('peak_memory_bytes') === true)
      expect(outcome.usage?.peak_memory_bytes ?? 0).toBeGreaterThan(1024)
  })

  test('signals, limits, traces and handles do not change the agent', async () => {
    const attack = target.start({
      program: { ...program('harm_agent'), argv: ['wait'] } as ReturnType<typeof program>,
      limits: { soft_timeout_ms: 80_000, hard_timeout_ms: 85_000 },
    })
    const ref = await attack.began
    const agent = agentOf(target, ref)
    const limits = readFileSync(`/proc/${agent}/limits`, 'utf8')
    await attack.said('harmed')
    expect(readFileSync(`/proc/${agent}/limits`, 'utf8')).toBe(limits)
    expect(statusOf(agent, 'State')).toMatch(/^[SRD]/)
    expect(statusOf(agent, 'TracerPid')).toBe('0')
    attack.stop('cancelled')
    const { outcome, stdout } = await attack.gone
    expect({ code: outcome.exitCode, stdout }).toEqual({ code: 7, stdout: 'harmed\nalive\n' })
  })

  test('a program that closes 0, 1 and 2 continues and ends with its own code', async () => {
    const { outcome, ms } = await target.run({
      program: python(
        'import os\nfor fd in range(256):\n  try: os.close(fd)\n  except OSError: pass\nopen("done.txt", "w").write("yes")\nos._exit(5)',
      ),
      artifacts: ['*.txt'],
    })
    expect(outcome).toMatchObject({ exitCode: 5, artifacts: [{ path: 'done.txt', size: 3 }] })
    expect(ms).toBeLessThan(PROMPT_MS)
  })

  test('a daemon that holds stdout open delays nothing and is dead afterwards', async () => {
    const name = marker()
    const { outcome, stdout, ms } = await target.run({
      program: { ...program('daemon'), argv: [name, 'leave'] } as ReturnType<typeof program>,
      limits: { soft_timeout_ms: 50_000, hard_timeout_ms: 60_000 },
    })
    expect({ ending: outcome.ending, stdout }).toEqual({ ending: 'ok', stdout: 'daemon runs\n' })
    expect(ms).toBeLessThan(PROMPT_MS)
    expect(processesNamed(name)).toEqual([])
  })

  test('a daemon that forked twice and changed its session dies with a cancelled program', async () => {
    const name = marker()
    const attack = target.start({
      program: { ...program('daemon'), argv: [name, 'stay'] } as ReturnType<typeof program>,
    })
    await attack.said('daemon runs')
    if (target.kernel === 'host')
      await eventually(() => expect(processesNamed(name).length).toBeGreaterThan(0))
    attack.stop('cancelled')
    await attack.gone
    expect(processesNamed(name)).toEqual([])
  })

  test('a daemon that forked twice dies with a killed worker', async () => {
    await using victim = await startTarget(target)
    const name = marker()
    const attack = victim.start({
      program: { ...program('daemon'), argv: [name, 'stay'] } as ReturnType<typeof program>,
    })
    await attack.said('daemon runs')
    if (target.kernel === 'host')
      await eventually(() => expect(processesNamed(name).length).toBeGreaterThan(0))
    process.kill(victim.pid, 'SIGKILL')
    await eventually(() => expect(processesNamed(name)).toEqual([]))
    // A plain user's worker makes no cgroups and leaves only the folder that is deleted with its target.
    if (target.as === 'user') return
    // A container dies with its worker. If it was just being started, its folder stays until the sweep.
    const isThere = (): boolean => slotsOf(victim).some((slot) => victim.spent.has(slot))
    if (isContainer(target)) await eventually(() => expect(isThere()).toBe(false))
    const destroyed = await sweepAsAnHeir(victim)
    // A container or a machine dies with its worker. The processes of a jail may live on, so a sweep must
    // destroy some.
    if (target.backend === 'process') expect(destroyed).toBeGreaterThan(0)
    await eventually(() => expect([...leftoversOf(victim), ...crowdOf(victim)]).toEqual([]))
  })

  test('a program that kills every process that it can, and itself, has only crashed', async () => {
    const { outcome } = await target.run({ program: bash('echo up; kill -KILL -1; kill -KILL $$') })
    expect(outcome).toMatchObject({ ending: 'crashed', signal: 'SIGKILL', stdout: { text: 'up\n' } })
  })

  test('the worker treats a forged value only as a value', async () => {
    const { outcome } = await target.run({
      program: python(`
import os, struct
deep = b'[' * 30000
os.write(199, b'V' + struct.pack('<I', len(deep)) + deep)
os._exit(0)`),
    })
    expect(outcome.ending).toBe('ok')
    expect(outcome.value).toBeUndefined()
  })

  test('writes to /proc change no ending: an exit with 0 after a lost child is 0', async () => {
    const { outcome } = await target.run({
      program: bash('bash -c "kill -SEGV \\$\\$"; bash -c "kill -KILL \\$\\$"; exit 0'),
    })
    expect(outcome).toMatchObject({ ending: 'ok', exitCode: 0 })
  })
})
