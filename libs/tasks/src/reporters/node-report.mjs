// A reporter of node:test that writes one JSON line when a test ends, so that a stopped run leaves a report.
// The reader accepts at most 8 MiB. So at most 500 messages of 4 KiB are written, which leaves enough for the
// names, files and lines of all other tests.
const MESSAGE_MAX = 4096
const MESSAGES = 500

export default async function* report(source) {
  let messages = 0
  /** The stderr of each test file's process, for files that fail as a whole. */
  const said = new Map()
  for await (const { type, data } of source) {
    if (type === 'test:stderr')
      said.set(data.file, ((said.get(data.file) ?? '') + data.message).slice(0, MESSAGE_MAX))
    // A suite is reported only if one of its hooks failed. Its tests then end as cancelled or passed, so they
    // do not show the failure.
    const isSuite = data.details?.type === 'suite'
    const isHook = type === 'test:fail' && data.details?.error?.failureType === 'hookFailed'
    if ((type !== 'test:pass' && type !== 'test:fail') || (isSuite && !isHook)) continue
    const isFile = typeof data.file === 'string' && data.nesting === 0 && data.file.endsWith(data.name)
    const skipped = data.skip !== undefined || data.todo !== undefined
    const status = skipped
      ? 'skipped'
      : type === 'test:pass'
        ? 'passed'
        : isFile || isSuite
          ? 'errored'
          : 'failed'
    const error = type === 'test:fail' && !skipped ? data.details?.error : undefined
    const text = isFile ? (said.get(data.name) ?? textOf(error)) : textOf(error)
    const message = error === undefined || (messages += 1) > MESSAGES ? '' : text
    const ms = data.details?.duration_ms ?? null
    const place = { file: data.file ?? null, line: lineOf(text, data) }
    const line = { t: 'test', name: String(data.name).slice(0, 1024), status, ...place, ms, message }
    yield `${JSON.stringify(line)}\n`
  }
  yield `${JSON.stringify({ t: 'end' })}\n`
}

function textOf(error) {
  const cause = error?.cause ?? error
  return String(cause?.stack ?? cause?.message ?? cause ?? '').slice(0, MESSAGE_MAX)
}

/** The line of the failure, if the text names the test's own file. Otherwise the line of the test. */
function lineOf(text, { file, line }) {
  for (const frame of text.split('\n')) {
    const found = /(?:^|\(|at )(?:file:\/\/)?(\/[^()]+?):(\d+)(?::\d+)?\)?$/.exec(frame.trim())
    if (found !== null && file !== undefined && decodeURI(found[1]) === file) return Number(found[2])
  }
  return line ?? null
}
