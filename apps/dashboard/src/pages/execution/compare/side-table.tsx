import type { Comparison } from '@cofferdam/client'
import type { ComponentChildren } from 'preact'
import { ExecutionLink } from '../../../parts/execution-link.tsx'
import { StandingDot } from '../../../parts/standing-dot.tsx'
import { cost, count, duration, size } from '../../../words/figures.ts'
import { plainLine } from '../output/ansi.ts'

type Side = Comparison['first']

const orNull = <T,>(value: T | null | undefined, words: (value: T) => string): string | null =>
  value === null || value === undefined ? null : words(value)

/** Figures that differ between almost any two runs. So a difference in them is not marked. */
const FIGURES: ReadonlyArray<readonly [string, (side: Side) => string | null]> = [
  ['Attempts', ({ attempt }) => count(attempt)],
  ['Waited', ({ queue_ms: ms }) => duration(ms)],
  ['Ran', ({ duration_ms: ms }) => duration(ms)],
  ['CPU time', ({ usage }) => orNull(usage?.cpu_ms, duration)],
  ['Peak memory', ({ usage }) => orNull(usage?.peak_memory_bytes, size)],
  ['Disk', ({ usage }) => orNull(usage?.disk_bytes, size)],
  ['Cost', ({ usage }) => orNull(usage?.cost, cost)],
  ['stdout', ({ stdout_bytes: bytes }) => size(bytes)],
  ['stderr', ({ stderr_bytes: bytes }) => size(bytes)],
]

/** Facts that are usually equal in both runs. A difference is marked. */
const FACTS: ReadonlyArray<readonly [string, (side: Side) => string | null]> = [
  ['Exit code', ({ exit_code: code }) => orNull(code, String)],
  ['Signal', ({ signal }) => signal],
  ['Backend', ({ backend }) => backend],
  ['Isolation', ({ isolation }) => isolation],
  ['Program', ({ executed_code_hash: hash }) => orNull(hash, (text) => `${text.slice(0, 12)}…`)],
  ['Error', ({ error_message: message }) => orNull(message, (text) => plainLine(text.slice(0, 300)))],
]

/** The figures of both sides, one line for each. A line that no side has is left out. */
export function SideTable({ first, second }: { first: Side; second: Side }) {
  const row = ([name, of]: (typeof FACTS)[number], marks: boolean) => {
    const [one, other] = [of(first), of(second)]
    if (one === null && other === null) return null
    return <Line key={name} name={name} one={one} other={other} differs={marks && one !== other} />
  }
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Both executions">
      <table class="rows sides">
        <thead>
          <tr>
            <td />
            <th scope="col">
              First <ExecutionLink id={first.execution_id} />
            </th>
            <th scope="col">Again</th>
          </tr>
        </thead>
        <tbody>
          <Line
            name="Ending"
            one={<StandingDot status="ended" ending={first.ending} />}
            other={<StandingDot status="ended" ending={second.ending} />}
            differs={first.ending !== second.ending}
          />
          {FACTS.map((fact) => row(fact, true))}
          {FIGURES.map((figure) => row(figure, false))}
        </tbody>
      </table>
    </div>
  )
}

function Line(props: { name: string; one: ComponentChildren; other: ComponentChildren; differs: boolean }) {
  return (
    <tr class={props.differs ? 'differs' : undefined}>
      <th scope="row">{props.name}</th>
      <td>{props.one ?? '–'}</td>
      <td>{props.other ?? '–'}</td>
    </tr>
  )
}
