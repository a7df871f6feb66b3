/** A result as text for people. */
import type { ExecutionResult, TestReport } from '@cofferdam/contract'
import type { Terminal } from './terminal.ts'

export function durationWords(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`
}

function bytesWords(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`
  const [value, unit] = bytes < 1_048_576 ? [bytes / 1024, 'KiB'] : [bytes / 1_048_576, 'MiB']
  return `${value.toFixed(1)} ${unit}`
}

/** The ending and its cause, in one line. */
function endingWords(result: ExecutionResult): string {
  const how = result.signal === null ? result.ending : `${result.ending} (${result.signal})`
  const why = result.error_message ?? result.reason
  return why === undefined ? how : `${how}: ${why}`
}

/** How many failures are shown as text. --json shows all. */
const SHOWN_FAILURES = 20

function testLines(tests: TestReport): string[] {
  const counts = (['passed', 'failed', 'errored', 'skipped'] as const)
    .filter((of) => tests[of] > 0)
    .map((of) => `${tests[of]} ${of}`)
  const failures = tests.failures.slice(0, SHOWN_FAILURES).map(({ name, file, line, message }) => {
    const where = file === null ? '' : ` (${file}${line === null ? '' : `:${line}`})`
    return `    ${name}${where}: ${message.split('\n')[0]}`
  })
  const more = tests.failures.length + tests.failures_omitted - failures.length
  return [
    `  tests      ${counts.join(', ') || 'none found'} of ${tests.total} (${tests.framework})`,
    ...failures,
    ...(more > 0 ? [`    … and ${more} more`] : []),
  ]
}

/** The session's ID, and which state of it was lost. */
function sessionWords({ id, fresh, interpreter }: NonNullable<ExecutionResult['session']>): string {
  const lost = fresh ? 'fresh' : interpreter === 'restarted' ? 'its interpreter was restarted' : null
  return lost === null ? id : `${id} (${lost})`
}

/** All that a person wants to know after the end, except the program's output. */
export function resultLines(result: ExecutionResult, terminal: Terminal): string[] {
  const mark = result.ok ? terminal.style('green', '✓') : terminal.style('red', '✗')
  const where =
    result.backend === null ? 'no sandbox' : `${result.backend} (${result.isolation ?? 'unknown'})`
  const memory = result.usage?.peak_memory_bytes
  const facts = [
    `${durationWords(result.duration_ms)} after ${durationWords(result.queue_ms)} in the queue`,
    where,
    ...(memory == null ? [] : [`${bytesWords(memory)} at most`]),
  ]
  const lines = [`${mark} ${endingWords(result)} · ${facts.join(' · ')}`]
  if (result.value !== undefined) lines.push(`  value      ${JSON.stringify(result.value)}`)
  if (result.tests !== undefined) lines.push(...testLines(result.tests))
  if (result.install !== undefined)
    lines.push(`  installed  ${result.install.packages.length} packages by ${result.install.manager}`)
  if (result.session !== undefined) lines.push(`  session    ${sessionWords(result.session)}`)
  if (result.vendor_ref !== undefined) lines.push(`  vendor     ${result.vendor_ref}`)
  for (const artifact of result.artifacts)
    lines.push(`  artifact   ${artifact.path} (${bytesWords(artifact.size)})`)
  for (const { path, size, reason } of result.artifacts_omitted ?? [])
    lines.push(`  left out   ${path} (${bytesWords(size)}): ${reason.replaceAll('_', ' ')}`)
  if (result.artifacts_incomplete === true)
    lines.push('  more files may match: the search or the collection ended early')
  if (result.env_dropped !== undefined)
    lines.push(`  not set    ${result.env_dropped.join(', ')}: they would change how programs start`)
  for (const stream of ['stdout', 'stderr'] as const)
    if (result[`${stream}_truncated`])
      lines.push(`  ${stream} was cut: ${bytesWords(result[`${stream}_bytes`])} in all`)
  if (result.resets_at !== undefined)
    lines.push(`  the ${result.dimension ?? 'cap'} window resets at ${result.resets_at}`)
  const trace = result.trace_id === null ? '' : ` · trace ${result.trace_id}`
  lines.push(terminal.style('dim', `  ${result.execution_id}${trace}`))
  return lines
}
