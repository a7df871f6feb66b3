/** Puts the results of two ended executions side by side. */
import {
  DIFF_BOUNDS,
  type Artifact,
  type ComparedSide,
  type Comparison,
  type Difference,
} from '@cofferdam/contract'
import type { EndedExecution } from '../find-execution.ts'
import { diffTexts } from './line-diff.ts'

export function compare(first: EndedExecution, second: EndedExecution): Comparison {
  const [a, b] = [first.result, second.result]
  const [stdout, stderr] = [diffTexts(a.stdout, b.stdout), diffTexts(a.stderr, b.stderr)]
  const artifacts = artifactChanges(a.artifacts, b.artifacts)
  const differs: Record<Difference, boolean> = {
    program: first.last.executed_code_hash !== second.last.executed_code_hash,
    ending: a.ending !== b.ending,
    exit_code: a.exit_code !== b.exit_code,
    signal: a.signal !== b.signal,
    // A result can contain a truncated output. Of the part that was cut off, only the number of bytes is
    // compared.
    stdout: !stdout.same || a.stdout_bytes !== b.stdout_bytes,
    stderr: !stderr.same || a.stderr_bytes !== b.stderr_bytes,
    value: JSON.stringify(a.value) !== JSON.stringify(b.value),
    artifacts: artifacts.length > 0,
    backend: a.backend !== b.backend,
  }
  return {
    first: sideOf(first),
    second: sideOf(second),
    differences: (Object.keys(differs) as Difference[]).filter((name) => differs[name]),
    stdout,
    stderr,
    artifacts: artifacts.slice(0, DIFF_BOUNDS.artifacts),
  }
}

function sideOf({ result, last }: EndedExecution): ComparedSide {
  const { error_message, value } = result
  return {
    execution_id: result.execution_id,
    attempt: result.attempt,
    rerun_of: last.rerun_of,
    started_at: last.started_at,
    ending: result.ending,
    exit_code: result.exit_code,
    signal: result.signal,
    backend: result.backend,
    isolation: result.isolation,
    duration_ms: result.duration_ms,
    queue_ms: result.queue_ms,
    usage: result.usage,
    stdout_bytes: result.stdout_bytes,
    stderr_bytes: result.stderr_bytes,
    executed_code_hash: last.executed_code_hash,
    ...(error_message === undefined ? {} : { error_message }),
    ...(value === undefined ? {} : { value }),
  }
}

function artifactChanges(a: readonly Artifact[], b: readonly Artifact[]): Comparison['artifacts'] {
  const before = new Map(a.map(({ path, sha256 }) => [path, sha256]))
  const after = new Map(b.map(({ path, sha256 }) => [path, sha256]))
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((path) => {
    const [was, is] = [before.get(path), after.get(path)]
    if (was === is) return []
    return [{ path, change: was === undefined ? 'added' : is === undefined ? 'removed' : 'changed' } as const]
  })
}
