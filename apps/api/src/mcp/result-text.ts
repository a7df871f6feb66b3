/** The text of a result that a model reads: first how it ended, then what the program said. */
import type { ExecutionResult } from '@cofferdam/contract'
import { cleanText, headAndTail } from './clean-text.ts'
import type { ExecutionOutput } from './execution-output.ts'

/** Characters of one text block in all. More would crowd out the rest of a model's context. */
const TEXT_MAX = 20_000
const VALUE_MAX = 4000
const STDERR_MAX = 6000
/** Failed tests whose messages are shown. The others are in the structured content. */
const TESTS_SHOWN = 10

/** About 20,000 characters at most. What the program printed comes after everything that we say. */
export function textOfResult(result: ExecutionResult): string {
  const facts = [headline(result), ...facets(result)].join('\n')
  const value = section('value', result.value === undefined ? '' : JSON.stringify(result.value), VALUE_MAX)
  const stderr = section(labelOf(result, 'stderr'), result.stderr, STDERR_MAX)
  const left = TEXT_MAX - facts.length - value.length - stderr.length
  return [facts, value, section(labelOf(result, 'stdout'), result.stdout, left - 200), stderr]
    .filter((text) => text !== '')
    .join('\n\n')
}

function headline(result: ExecutionResult): string {
  const { ending, exit_code, duration_ms, queue_ms, execution_id } = result
  const code = exit_code === null ? '' : `, exit code ${exit_code}`
  const times = `${Math.round(duration_ms)} ms after ${Math.round(queue_ms)} ms in the queue`
  return `Ended: ${ending}${code}, ${times}. execution_id: ${execution_id}`
}

function facets(result: ExecutionResult): string[] {
  const { error, error_message, session, tests, artifacts, resets_at } = result
  const omitted = result.artifacts_omitted?.length ?? 0
  return [
    error === undefined ? '' : `${error}: ${headAndTail(cleanText(error_message ?? ''), 1000)}`,
    resets_at === undefined ? '' : `Do not repeat the call before ${resets_at}.`,
    session === undefined ? '' : `Session: ${session.fresh ? 'new, nothing was there before' : 'continued'}.`,
    artifacts.length === 0
      ? ''
      : `Artifacts: ${headAndTail(artifacts.map(({ path }) => cleanText(path)).join(', '), 2000)}`,
    omitted === 0 ? '' : `${omitted} matching files were left out.`,
    tests === undefined ? '' : testsText(tests),
  ].filter((line) => line !== '')
}

function testsText(tests: NonNullable<ExecutionResult['tests']>): string {
  const { passed, failed, errored, skipped, failures, complete } = tests
  const counts = `Tests: ${passed} passed, ${failed} failed, ${errored} errored, ${skipped} skipped`
  const shown = failures.slice(0, TESTS_SHOWN).map(({ name, file, line, message }) => {
    const at = file === null ? '' : ` (${cleanText(file)}${line === null ? '' : `:${line}`})`
    return `- ${cleanText(name).slice(0, 200)}${at}: ${headAndTail(cleanText(message), 400)}`
  })
  return [`${counts}${complete ? '' : ' (the run was not complete)'}.`, ...shown].join('\n')
}

const labelOf = (result: ExecutionResult, stream: 'stdout' | 'stderr'): string => {
  const bytes = `${stream}, ${result[`${stream}_bytes`]} bytes`
  return result[`${stream}_truncated`] ? `${bytes}, not all of it here` : bytes
}

const section = (label: string, text: string, max: number): string =>
  text === '' ? '' : `${label}:\n${headAndTail(cleanText(text), Math.max(0, max))}`

/** The text for an execution that has not ended. */
export function textOfLive({ execution_id, status, position, progress }: ExecutionOutput): string {
  const where = typeof position === 'number' ? `, ${position} executions start before it` : ''
  const how =
    progress === undefined ? '' : ` ${Math.round(progress.fraction * 100)} %: ${cleanText(progress.message)}`
  return (
    `Not ended yet: ${status}${where}.${how} It goes on. Call get_execution with execution_id ` +
    `${execution_id} for the result, or cancel_execution to stop it.`
  )
}
