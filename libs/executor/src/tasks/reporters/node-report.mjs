// A reporter of node:test: one JSON line per test as it ends, so that a stopped run leaves what it knew.
// The reader takes 8 MiB: 500 messages of 4 KiB, and names and places of all others.
const MESSAGE_MAX = 4096
const MESSAGES = 500

export default async function* report(source) {
  let messages = 0
  for await (const { type, data } of source) {
    if (type === 'test:summary' && data.file === undefined) yield `${JSON.stringify({ t: 'end' })}\n`
    if ((type !== 'test:pass' && type !== 'test:fail') || data.details?.type === 'suite') continue
    const skipped = data.skip !== undefined || data.todo !== undefined
    const status = skipped ? 'skipped' : type === 'test:pass' ? 'passed' : 'failed'
    const error = status === 'failed' ? data.details?.error : undefined
    const message = error === undefined || (messages += 1) > MESSAGES ? '' : textOf(error)
    const ms = data.details?.duration_ms ?? null
    const place = { file: data.file ?? null, line: lineOf(error, data) }
    yield `${JSON.stringify({ t: 'test', name: String(data.name).slice(0, 1024), status, ...place, ms, message })}\n`
  }
}

function textOf(error) {
  const cause = error.cause ?? error
  return String(cause?.stack ?? cause?.message ?? cause).slice(0, MESSAGE_MAX)
}

/** Where it failed, when the stack names the test's own file; else where the test stands. */
function lineOf(error, { file, line }) {
  const stack = String(error?.cause?.stack ?? error?.stack ?? '')
  for (const frame of stack.split('\n')) {
    const found = /(?:\(|at )(?:file:\/\/)?([^()]+?):(\d+):\d+\)?$/.exec(frame.trim())
    if (found !== null && file !== undefined && decodeURI(found[1]) === file) return Number(found[2])
  }
  return line ?? null
}
