/** Carries out a fake program's steps in one sandbox's memory, and returns how it ended. */
import { setTimeout as sleep } from 'node:timers/promises'
import { assertNever, type Exit, type Usage } from '@cofferdam/contract'
import type { BoundedOutput } from './bounded-output.ts'
import type { MemoryFiles } from './memory-files.ts'
import type { FakeStep } from './steps.ts'

export interface FakeProcess {
  output: BoundedOutput
  files: MemoryFiles
  env: Readonly<Record<string, string>>
  stdin: Uint8Array
  /** Aborts when the sandbox is gone or the caller gave up; `run` rejects with its reason. */
  stop: AbortSignal
  /** Aborts at the first soft stop. */
  interrupted: AbortSignal
  /** Ends the sandbox. Called by the step `die`. */
  die(): void
}

type Evidence = Pick<Exit, 'exitCode' | 'signal' | 'oomKills' | 'pidsLimitHit' | 'diskLimitHit'> & {
  usage: Partial<Usage>
  valueJson?: string
}

// setTimeout's longest delay, for a fake program that waits for its interrupt (24.8 days).
const FOREVER_MS = 2_147_483_647

/** Runs to the end. Rejects with the reason of `stop` at once. */
export async function interpret(steps: readonly FakeStep[], process: FakeProcess): Promise<Evidence> {
  const { output, files, env, stdin, stop } = process
  const evidence: Evidence = {
    exitCode: 0,
    signal: null,
    oomKills: 0,
    pidsLimitHit: false,
    diskLimitHit: false,
    usage: {},
  }
  const exited = (exitCode: number): Evidence => ({ ...evidence, exitCode })
  const killed = (signal: string): Evidence => ({ ...evidence, exitCode: null, signal })
  let deaf = false

  for (const step of steps) {
    stop.throwIfAborted()
    if ('print' in step) await output.text('stdout', `${step.print}\n`)
    else if ('stdout' in step) await output.text('stdout', step.stdout)
    else if ('stderr' in step) await output.text('stderr', step.stderr)
    else if ('stdout_base64' in step) await output.bytes('stdout', Buffer.from(step.stdout_base64, 'base64'))
    else if ('repeat' in step) await output.repeat('stdout', Buffer.from(step.repeat.text), step.repeat.times)
    else if ('print_env' in step) await output.text('stdout', `${env[step.print_env] ?? ''}\n`)
    else if ('print_all_env' in step) await output.text('stdout', `${JSON.stringify(env)}\n`)
    else if ('echo_stdin' in step) await output.bytes('stdout', stdin)
    else if ('cat' in step) {
      const file = files.get(step.cat)
      if (file === undefined) {
        await output.text('stderr', `fake: no file ${step.cat}\n`)
        return exited(1)
      }
      await output.bytes('stdout', file.bytes)
    } else if ('write_file' in step) {
      files.put({ path: step.write_file.path, bytes: Buffer.from(step.write_file.content) })
    } else if ('value' in step) evidence.valueJson = JSON.stringify(step.value)
    else if ('sleep_ms' in step) {
      if ((await wait(step.sleep_ms, deaf, process)) === 'interrupted') return killed('SIGINT')
    } else if ('spin_until_interrupt' in step) await wait(FOREVER_MS, deaf, process)
    else if ('ignore_interrupts' in step) deaf = true
    else if ('exit' in step) return exited(step.exit)
    else if ('crash' in step) return killed(step.crash)
    else if ('throw' in step) {
      await output.text('stderr', `${step.throw}\n`)
      return exited(1)
    } else if ('oom' in step) return { ...killed('SIGKILL'), oomKills: 1 }
    else if ('pids_limit' in step) evidence.pidsLimitHit = true
    else if ('disk_limit' in step) evidence.diskLimitHit = true
    else if ('usage' in step) evidence.usage = definedOnly(step.usage)
    else if ('die' in step) process.die()
    else assertNever(step)
  }
  stop.throwIfAborted()
  return evidence
}

async function wait(ms: number, deaf: boolean, process: FakeProcess): Promise<'slept' | 'interrupted'> {
  const { stop, interrupted } = process
  try {
    await sleep(ms, undefined, { signal: deaf ? stop : AbortSignal.any([stop, interrupted]) })
    return 'slept'
  } catch {
    stop.throwIfAborted()
    return 'interrupted'
  }
}

function definedOnly(usage: Record<string, number | undefined>): Partial<Usage> {
  return Object.fromEntries(Object.entries(usage).filter(([, value]) => value !== undefined))
}
