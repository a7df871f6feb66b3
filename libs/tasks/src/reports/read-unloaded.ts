/** Finds why no test started, if only the output tells: a broken crate, or a file that mocha cannot load. */
import type { TestFramework } from '@cofferdam/contract'
import { plainText, type TestCase } from './report-draft.ts'

/** Null when the output has no such error. `root` is the work directory as the sandbox sees it. */
export function readUnloaded(framework: TestFramework, printed: string, root: string): TestCase | null {
  const text = plainText(printed)
  if (framework === 'cargo') return crate(text)
  return framework === 'mocha' ? script(text, root) : null
}

/** Cargo names the crate after rustc's errors. The first error is the cause, others may follow from it. */
function crate(text: string): TestCase | null {
  const name = /^error: could not compile (`[^`\n]{1,200}`(?: \([^)\n]{1,200}\))?)/m.exec(text)?.[1]
  if (name === undefined) return null
  const message = /^error(?:\[E\d{4}\])?: (?!could not compile).*(?:\n.+)*/m.exec(text)?.[0] ?? ''
  const place = /^ *--> ([^\s:]{1,400}\.rs):(\d{1,7}):/m.exec(message)
  return {
    name,
    status: 'errored',
    file: place?.[1],
    line: place === null ? null : Number(place[2]),
    message,
  }
}

function script(text: string, root: string): TestCase | null {
  const said = /^ ?Exception during run: ?([^]*)/m.exec(text)?.[1]
  if (said === undefined) return null
  const paths = [...said.matchAll(/(\/[^\s:()'"]{1,400}\.[cm]?[jt]sx?)\b(?::(\d{1,7}))?/g)].filter(
    ([, path = '']) => root !== '' && path.startsWith(`${root}/`) && !path.includes('/node_modules/'),
  )
  const [, file = null, line] = paths.find((found) => found[2] !== undefined) ?? paths[0] ?? []
  return {
    name: file ?? 'mocha',
    status: 'errored',
    file,
    line: line === undefined ? null : Number(line),
    // The message of a syntax error starts with its place and its line.
    message: said.slice(Math.max(0, said.search(/^\w*Error\b/m))),
  }
}
