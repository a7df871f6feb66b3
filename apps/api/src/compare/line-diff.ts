/**
 * A bounded diff of two texts by lines, with the fewest changes. Texts that need more than `MOST_CHANGES` are
 * not worth more time: their middle counts as replaced.
 */
import { DIFF_BOUNDS, type TextDiff } from '@cofferdam/contract'
import { diffArrays } from 'diff'

/** Work grows with lines times changes. This bound takes 0.1 s for the longest texts. */
const MOST_CHANGES = 500
/** Lines on each side that are compared. An output of 4 MiB has more only if its lines are short. */
const MOST_LINES = 20_000
/** Lines that a text is split into. The rest counts as one line, because 4 MiB can be 4 million lines. */
const MOST_SPLIT = 100_000
/** Unchanged lines around a change. */
const AROUND = 3
/** The most consecutive removed lines, or consecutive added lines, that are shown. */
const MOST_IN_A_ROW = 100

type Kind = TextDiff['lines'][number]['kind']

interface Step {
  kind: Exclude<Kind, 'skipped'>
  line: string
  /** Number of further lines that this step stands for. They are not shown. */
  more?: number
}

export function diffTexts(first: string, second: string): TextDiff {
  if (first === second) return { same: true, added: 0, removed: 0, exact: true, lines: [] }
  const [a, b] = [linesOf(first), linesOf(second)]
  let head = 0
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1
  let tail = 0
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1
  const [left, right] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)]
  const found = left.length > MOST_LINES || right.length > MOST_LINES ? null : shortest(left, right)
  const steps: Step[] = [
    ...a.slice(Math.max(0, head - AROUND), head).map(of('same')),
    ...(found ?? [...replaced(left, 'removed'), ...replaced(right, 'added')]),
    ...a.slice(a.length - tail, a.length - tail + AROUND).map(of('same')),
  ]
  const count = (kind: Kind): number => (found ?? []).filter((step) => step.kind === kind).length
  return {
    same: false,
    added: found === null ? right.length : count('added'),
    removed: found === null ? left.length : count('removed'),
    exact: found !== null,
    lines: shown(steps, Math.max(0, head - AROUND), Math.max(0, tail - AROUND)),
  }
}

/** Lines with their line feed, so that a text without a final line feed differs from one that has it. */
function linesOf(text: string): string[] {
  const lines: string[] = []
  for (let at = 0; at < text.length;) {
    const isLast = lines.length === MOST_SPLIT - 1
    const end = isLast ? text.length : text.indexOf('\n', at) + 1 || text.length
    lines.push(text.slice(at, end))
    at = end
  }
  return lines
}

/** The steps of a replaced part: one for each of its first lines, and a single one that counts the rest. */
function replaced(lines: readonly string[], kind: Step['kind']): Step[] {
  const more = lines.length - MOST_IN_A_ROW
  const steps = lines.slice(0, MOST_IN_A_ROW).map(of(kind))
  return more > 0 ? [...steps, { kind, line: '', more }] : steps
}

const of =
  (kind: Step['kind']) =>
  (line: string): Step => ({ kind, line })

/** The steps with the fewest changes. Null if there are more than `MOST_CHANGES`. */
function shortest(a: readonly string[], b: readonly string[]): Step[] | null {
  const changes = diffArrays([...a], [...b], { maxEditLength: MOST_CHANGES })
  if (changes === undefined) return null
  return changes.flatMap(({ added, removed, value }) =>
    value.map(of(added ? 'added' : removed ? 'removed' : 'same')),
  )
}

/**
 * Returns the changes with a few unchanged lines around them, within DIFF_BOUNDS. `before` and `after` count
 * the equal lines before and after `steps`.
 */
function shown(steps: readonly Step[], before: number, after: number): TextDiff['lines'] {
  const isNear = nearChanges(steps)
  const lines: TextDiff['lines'] = []
  let skipped = before
  let inRow = 0
  const flush = (): void => {
    if (skipped > 0) lines.push({ kind: 'skipped', text: `${skipped} lines` })
    skipped = 0
  }
  for (const [at, { kind, line, more }] of steps.entries()) {
    inRow = steps[at - 1]?.kind === kind ? inRow + 1 : 1
    // Reserves one line, because a note about skipped lines may be put before this one.
    const isTooMany = lines.length >= DIFF_BOUNDS.lines - 1 || (kind !== 'same' && inRow > MOST_IN_A_ROW)
    const isShown = isNear[at] === true && !isTooMany && more === undefined
    if (!isShown) skipped += more ?? 1
    else {
      flush()
      lines.push({ kind, text: cut(line, kind) })
    }
  }
  skipped += after
  flush()
  return lines
}

function nearChanges(steps: readonly Step[]): boolean[] {
  const isNear = steps.map(() => false)
  for (const [at, { kind }] of steps.entries())
    if (kind !== 'same')
      for (let near = Math.max(0, at - AROUND); near <= at + AROUND && near < steps.length; near += 1)
        isNear[near] = true
  return isNear
}

function cut(line: string, kind: Step['kind']): string {
  const isWhole = line.endsWith('\n')
  const text = line.slice(0, isWhole ? -1 : undefined)
  const most = DIFF_BOUNDS.lineLength
  if (text.length > most) return `${text.slice(0, most - 1)}…`
  const note = ' (no line feed at the end)'
  return isWhole || kind === 'same' || text.length > most - note.length ? text : text + note
}
