/** Any sequence of steps in a session that keeps processes leaves exactly what a simple model predicts. */
import { join } from 'node:path'
import type { Program } from '@cofferdam/contract'
import { isLongTier } from '@cofferdam/embedded/needs'
import { scheduleSeed } from '@cofferdam/embedded/testing'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { isRunning, Model, pidIn, type Step } from './background-model.ts'
import { openLab, stop, type Lab, type Ran } from './start-agent.ts'

let lab: Lab
beforeAll(async () => {
  lab = await openLab()
})
afterAll(() => lab.close())

const KEEP = { keepInterpreter: true, keepProcesses: true }
/** Seconds that no other process on this machine sleeps. */
const SLEEP = `9875.${process.pid}`
/** Grace of a soft stop: SIGTERM follows after half of it. Short for programs that ignore SIGINT. */
const GRACE_MS = 100
/**
 * Grace of programs that end at SIGINT. With a short one, SIGTERM could come first on a busy machine, and end
 * their process group.
 */
const PATIENT_GRACE_MS = 120_000

const language = fc.constantFrom('bash', 'python')
const kind = fc.constantFrom('bash', 'python', 'command')
const steps: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: kind }),
  { weight: 2, arbitrary: fc.record({ do: fc.constant('start'), in: kind }) },
  fc.record({ do: fc.constant('kill'), job: fc.nat(20) }),
  fc.record({ do: fc.constant('write') }),
  fc.record({ do: fc.constant('exit'), in: language }),
  fc.record({ do: fc.constant('time out'), in: language, stubborn: fc.boolean() }),
)

const HANGS = {
  bash: (stubborn: boolean) => `${stubborn ? "trap '' INT; " : ''}echo hangs; sleep ${SLEEP}`,
  python: (stubborn: boolean) =>
    `import signal, sys, time\n${stubborn ? 'signal.signal(2, signal.SIG_IGN)\n' : ''}sys.stdout.write("hangs\\n"); sys.stdout.flush()\ntime.sleep(600)`,
}
const EXITS = { bash: 'exit 0', python: 'import os\nos._exit(0)' }
const COUNTS = {
  bash: 'count=$((count+1)); echo $count',
  python: 'count = globals().get("count", 0) + 1\nprint(count)',
}
/**
 * Starts a process that outlives the program, and writes its pid into a file. In Python, it has its own
 * group.
 */
const STARTS: Record<'bash' | 'python' | 'command', (name: string) => Program> = {
  bash: (name) => ({ type: 'script', language: 'bash', source: `sleep ${SLEEP} & echo $! >${name}` }),
  python: (name) => ({
    type: 'script',
    language: 'python',
    source: `import subprocess
job = subprocess.Popen(["sleep", "${SLEEP}"], start_new_session=True)
open("${name}", "w").write(str(job.pid))`,
  }),
  command: (name) => ({ type: 'command', argv: ['sh', '-c', `sleep ${SLEEP} & echo $! >${name}`] }),
}

async function play(sequence: readonly Step[]): Promise<void> {
  const agent = await lab.start('bash', { cell: true })
  const model = new Model()
  const at = (name: string): string => join(agent.work, name)
  const run = async (program: Program, graceMs: number | null = null): Promise<Ran> => {
    const onOutput = (): void => {
      if (graceMs !== null) agent.session.interrupt(graceMs)
    }
    return await agent.run(program, { onOutput }, {}, KEEP)
  }
  const script = async (
    where: 'bash' | 'python',
    source: string,
    expected: Partial<Ran>,
    graceMs: number | null = null,
  ): Promise<void> => {
    const interpreter = model.run(where)
    const ran = await run({ type: 'script', language: where, source }, graceMs)
    expect(ran).toMatchObject({ ...expected, exit: { interpreter } })
  }

  async function take(step: Step, n: number): Promise<void> {
    switch (step.do) {
      case 'bash':
      case 'python': {
        const interpreter = model.run(step.do)
        const ran = await run({ type: 'script', language: step.do, source: COUNTS[step.do] })
        expect(ran).toMatchObject({
          stdout: `${model.count(step.do)}\n`,
          stderr: '',
          exit: { exitCode: 0, interpreter },
        })
        return
      }
      case 'command':
        expect((await run({ type: 'command', argv: ['echo', 'on'] })).stdout).toBe('on\n')
        return
      case 'start':
        if (step.in !== 'command') model.run(step.in)
        expect((await run(STARTS[step.in](`job-${n}`))).exit.exitCode).toBe(0)
        model.start(`job-${n}`, step.in)
        model.files.add(`job-${n}`)
        return
      case 'kill': {
        const job = model.jobs.filter(({ isAlive }) => isAlive).at(step.job)
        if (job === undefined) return
        await run({ type: 'command', argv: ['kill', '-9', String(pidIn(at(job.name)))] })
        job.isAlive = false
        return
      }
      case 'write':
        await agent.session.write([{ path: `file-${n}`, bytes: Buffer.from('x') }])
        model.files.add(`file-${n}`)
        return
      case 'exit':
        await script(step.in, EXITS[step.in], { stdout: '' })
        model.lose(step.in)
        return
      case 'time out':
        await script(
          step.in,
          HANGS[step.in](step.stubborn),
          { stdout: 'hangs\n' },
          step.stubborn ? GRACE_MS : PATIENT_GRACE_MS,
        )
        if (step.stubborn) model.endGroup(step.in)
        // A kept Python survives an interrupt; a shell ends with its interrupted command.
        else if (step.in === 'bash') model.lose('bash')
    }
  }

  for (const [n, step] of sequence.entries()) {
    await take(step, n)
    const listed = await agent.session.list(['job-*', 'file-*'], 100)
    expect(new Set(listed.map(({ path }) => path)), `after step ${n}`).toEqual(model.files)
    await vi.waitFor(
      () => {
        for (const { name, isAlive } of model.jobs)
          expect(isRunning(pidIn(at(name))), `${name} after step ${n}`).toBe(isAlive)
      },
      { timeout: 10_000, interval: 5 },
    )
    await agent.session.clean('processes')
  }
  const pids = model.jobs.map(({ name }) => pidIn(at(name)))
  await stop(agent)
  expect(pids.filter(isRunning)).toEqual([])
}

test('keeps, ends and reports what the model predicts in one long sequence', async () => {
  await play([
    { do: 'start', in: 'bash' },
    { do: 'start', in: 'python' },
    { do: 'command' },
    { do: 'time out', in: 'python', stubborn: false },
    { do: 'time out', in: 'bash', stubborn: false },
    { do: 'start', in: 'bash' },
    { do: 'write' },
    { do: 'kill', job: 0 },
    { do: 'exit', in: 'bash' },
    { do: 'start', in: 'command' },
    { do: 'start', in: 'bash' },
    { do: 'time out', in: 'bash', stubborn: true },
    { do: 'time out', in: 'python', stubborn: true },
    { do: 'bash' },
    { do: 'python' },
  ])
})

test('keeps, ends and reports what the model predicts in any sequence', { timeout: 300_000 }, async () => {
  await fc.assert(fc.asyncProperty(fc.array(steps, { minLength: 4, maxLength: 12 }), play), {
    numRuns: isLongTier() ? 60 : 8,
    seed: scheduleSeed(),
    endOnFailure: true,
  })
})
