/**
 * Programs of type `tests` and `install`: the executor turns each into a command and files of its own, so that every
 * backend that runs commands and takes files runs tasks, and none has to know of them. What is hashed and audited stays
 * what the caller asked for.
 */
import {
  assertNever,
  BOUNDS,
  type ExecutionRequest,
  type InstallReport,
  type Outcome,
  type Program,
  type Sandbox,
  type TenantPolicy,
  unlessAborted,
} from '@cofferdam/contract'
import type { Egress } from '@cofferdam/egress'
import { withDeadline } from '../with-deadline.ts'
import type { Clock } from '../clock.ts'
import { asksForPackages } from '../execution-egress.ts'
import { failureReason, type FailureFacts } from '../failure-reason.ts'
import { ProvisioningFailure } from '../provisioning-failure.ts'
import type { Verdict } from '../verdict.ts'
import { installFailure } from './install-failure.ts'
import { missingRunner } from './missing-runner.ts'
import { NOTHING_SEEN, packageAccess, type PackageAccess } from './package-access.ts'
import { planInstall, refuseInstall, type InstallPlan } from './plan-install.ts'
import { planTests, type TestsPlan } from './plan-tests.ts'
import { NOTHING_LEFT, readReport, takeReport, type LeftBehind } from './read-report.ts'
import { testVerdict } from './test-verdict.ts'

/** Names of 100,000 files and some manifests, also from a remote sandbox. */
const PLAN_TIMEOUT_MS = 30_000

/** A planned task: what to run in place of its program, and how to read what comes of it. */
export interface Task {
  readonly program: Program
  /** Takes what the run left in the sandbox, also our own files. Never rejects; call it before artifacts are collected. */
  take(sandbox: Sandbox, signal: AbortSignal): Promise<void>
  /** The ending and the report. `printed` is the redacted end of the output; `redact` goes over every text of a report. */
  conclude(
    verdict: Verdict,
    facts: FailureFacts,
    printed: string,
    redact: (text: string) => string,
  ): Pick<Outcome, 'ending' | 'reason' | 'failureReason' | 'tests' | 'install'>
}

/** What a backend must be able to run for this program: for a task, a command with files. */
export function carrierOf(program: Program): { program: Program; files: boolean } {
  if (program.type === 'files') return { program, files: true }
  return isTask(program)
    ? { program: { type: 'command', shell: ':' }, files: true }
    : { program, files: false }
}

const isTask = (program: Program): program is Extract<Program, { type: 'tests' | 'install' }> =>
  program.type === 'tests' || program.type === 'install'

/** Refuses a task, or packages, that no sandbox could change anything about. Throws TaskRefusal. */
export function refuseTask(
  request: Pick<ExecutionRequest, 'program' | 'network'>,
  tenant: TenantPolicy,
  egress: Egress | null,
): void {
  const { program } = request
  if (asksForPackages(request))
    refuseInstall(program.type === 'install' ? program : {}, tenant, packageAccess(egress, null))
}

/** Plans the task of a prepared sandbox and writes its files; null for other programs. Throws TaskRefusal. */
export async function planTask(options: {
  program: Program
  sandbox: Sandbox
  tenant: TenantPolicy
  packages: PackageAccess | null
  /** A name that nothing in the work directory has. */
  folder: string
  clock: Clock
  signal: AbortSignal
}): Promise<Task | null> {
  if (options.program.type === 'script' || options.program.type === 'command') return null
  const timeout = new ProvisioningFailure(
    'prepare_failed',
    `The work directory could not be read in ${PLAN_TIMEOUT_MS} ms.`,
  )
  using bound = withDeadline(options.clock, options.signal, PLAN_TIMEOUT_MS, timeout)
  return await unlessAborted(planned(options), bound.signal)
}

async function planned(
  options: Omit<Parameters<typeof planTask>[0], 'clock' | 'signal'>,
): Promise<Task | null> {
  const { program, sandbox, tenant, packages, folder } = options
  switch (program.type) {
    case 'script':
    case 'command':
    case 'files':
      return null
    case 'install': {
      const plan = await planInstall(program, sandbox, tenant, packages)
      if (plan.lock !== null) await sandbox.write([plan.lock.file])
      return installTask(plan, packages)
    }
    case 'tests': {
      const plan = await planTests(program, sandbox, folder)
      await sandbox.write(plan.files)
      return testsTask(plan)
    }
    default:
      return assertNever(program)
  }
}

function testsTask(plan: TestsPlan): Task {
  let left: LeftBehind = NOTHING_LEFT
  return {
    program: plan.program,
    async take(sandbox, signal) {
      left = await takeReport(sandbox, plan, signal)
    },
    conclude(verdict, facts, printed, redact) {
      const { report, ended } = readReport(plan, left, printed)
      const stopped = verdict.ending !== 'ok' && verdict.ending !== 'error'
      const tests = {
        ...report,
        // A runner that is asked to stop may still write its summary, of the tests that it had by then.
        complete: report.complete && !stopped,
        command: redact(report.command),
        failures: report.failures.map((failure) => ({
          ...failure,
          name: redact(failure.name).slice(0, 1024),
          file: failure.file === null ? null : redact(failure.file).slice(0, 512),
          message: redact(failure.message).slice(0, 8192),
        })),
      }
      const missing = missingRunner(tests.framework, facts.exit?.exitCode ?? null, printed)
      const { ending, reason, text } = testVerdict(verdict, tests, ended, missing)
      return { ending, reason, failureReason: text?.slice(0, 2000) ?? failureReason(verdict, facts), tests }
    },
  }
}

function installTask(plan: InstallPlan, packages: PackageAccess | null): Task {
  return {
    program: plan.program,
    take: async (sandbox) => plan.lock?.restore(sandbox),
    conclude(verdict, facts, _printed, redact) {
      const seen = packages?.seen() ?? NOTHING_SEEN
      const install: InstallReport = {
        manager: plan.manager,
        command: plan.shown,
        // The contract's bounds (installReportSchema).
        packages: seen.packages.slice(0, 2000),
        refused: seen.refused.slice(0, 100),
      }
      const usual = failureReason(verdict, facts)
      if (verdict.ending !== 'error') return { ...verdict, failureReason: usual, install }
      const { reason, text } = installFailure(seen, usual)
      return {
        ending: 'error',
        reason: reason ?? verdict.reason,
        failureReason: redact(text).slice(0, BOUNDS.failureReasonLength),
        install,
      }
    },
  }
}
