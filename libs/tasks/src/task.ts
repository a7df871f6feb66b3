/**
 * Plans programs of type `tests` and `install`. Each becomes an ordinary command with files, so every backend
 * that runs commands and takes files can run tasks without knowing of them. The hash and the audit row are
 * those of the caller's request, not of the command.
 */
import type { InstallReport, Outcome, Program, Sandbox, TenantPolicy } from '@cofferdam/contract'
import { BOUNDS } from '@cofferdam/contract'
import { explainPackages } from './install/explain-packages.ts'
import { NO_PACKAGES, type PackageAccess } from './install/package-access.ts'
import { planInstall, type InstallPlan } from './install/plan-install.ts'
import { NOTHING_LEFT, readReport, takeReport, type LeftBehind } from './reports/read-report.ts'
import { missingRunner } from './test-run/missing-runner.ts'
import { planTests, type TestsPlan } from './test-run/plan-tests.ts'
import { testVerdict } from './test-run/test-verdict.ts'

/** How the command of a task ended. The task decides its own ending from this. */
export interface TaskEnd extends Pick<Outcome, 'ending' | 'reason' | 'failureReason'> {
  exitCode: number | null
}

/** A planned task: what to run in place of its program, and how to read the outcome. */
export interface Task {
  readonly program: Program
  /** Call it with all redacted output of the run: it reads the summaries of test frameworks. */
  onOutput(stream: 'stdout' | 'stderr', text: string): void
  /** Reads the report and removes our files. Call it before artifacts are collected. Never rejects. */
  take(sandbox: Sandbox, signal: AbortSignal): Promise<void>
  /** The ending and the report. `redact` removes secrets from every text in the report. */
  conclude(
    end: TaskEnd,
    redact: (text: string) => string,
  ): Pick<Outcome, 'ending' | 'reason' | 'failureReason' | 'tests' | 'install'>
}

type TaskProgram = Extract<Program, { type: 'tests' | 'install' }>

/** Whether the program is one that `planTask` plans. */
export const isTask = (program: Program): program is TaskProgram =>
  program.type === 'tests' || program.type === 'install'

/**
 * Stands for the command of a task, which is planned only after the sandbox is open. The chosen backend must
 * be able to run commands and to take files.
 */
export const TASK_CARRIER: Program = { type: 'command', shell: ':' }

/**
 * Plans the task, and writes the task's own files to the sandbox. The sandbox must have the request's files
 * already. `folder` is an unused name in the work directory. Throws TaskRefusal, and every error of the
 * sandbox.
 */
export async function planTask(
  program: TaskProgram,
  sandbox: Sandbox,
  options: { tenant: TenantPolicy; packages: PackageAccess | null; folder: string },
): Promise<Task> {
  if (program.type === 'install') {
    const plan = await planInstall(program, sandbox, options.tenant, options.packages)
    if (plan.lock !== null) await sandbox.write([plan.lock.file])
    return installTask(plan, options.packages)
  }
  const plan = await planTests(program, sandbox, options.folder)
  await sandbox.write(plan.files)
  return testsTask(plan)
}

/** A summary has a few lines. It fits into 64 KiB, with the last messages before it. */
const MAX_TAIL_CHARS = 64 * 1024

function testsTask(plan: TestsPlan): Task {
  let left: LeftBehind = NOTHING_LEFT
  const tails = { stdout: '', stderr: '' }
  return {
    program: plan.program,
    onOutput(stream, text) {
      tails[stream] = (tails[stream] + text).slice(-MAX_TAIL_CHARS)
    },
    async take(sandbox, signal) {
      left = await takeReport(sandbox, plan, signal)
    },
    conclude(end, redact) {
      const printed = `${tails.stdout}\n${tails.stderr}`
      const { report, ended } = readReport(plan, left, printed)
      const stopped = end.ending !== 'ok' && end.ending !== 'error'
      const tests = {
        ...report,
        // A runner that is asked to stop may still write a summary of the tests that it has run. Such a
        // report is not complete.
        complete: report.complete && !stopped,
        command: redact(report.command),
        failures: report.failures.map((failure) => ({
          ...failure,
          name: redact(failure.name).slice(0, 1024),
          file: failure.file === null ? null : redact(failure.file).slice(0, 512),
          message: redact(failure.message).slice(0, 8192),
        })),
      }
      const missing = missingRunner(tests.framework, end.exitCode, printed)
      const { ending, reason, text } = testVerdict(end, tests, ended, missing)
      const failureReason = text?.slice(0, BOUNDS.failureReasonLength) ?? end.failureReason
      return { ending, reason, failureReason, tests }
    },
  }
}

function installTask(plan: InstallPlan, packages: PackageAccess | null): Task {
  return {
    program: plan.program,
    onOutput: () => undefined,
    take: async (sandbox) => plan.lock?.restore(sandbox),
    conclude({ ending, reason, failureReason }, redact) {
      const seen = packages?.seen() ?? NO_PACKAGES
      const install: InstallReport = {
        manager: plan.manager,
        command: plan.shown,
        // The contract's bounds (installReportSchema).
        packages: seen.packages.slice(0, 2000),
        refused: seen.refused.slice(0, 100),
      }
      if (ending !== 'error') return { ending, reason, failureReason, install }
      const text = explainPackages(seen, failureReason)
      return {
        ending,
        reason: seen.refused.length > 0 ? 'packages_refused' : reason,
        failureReason: redact(text).slice(0, BOUNDS.failureReasonLength),
        install,
      }
    },
  }
}
