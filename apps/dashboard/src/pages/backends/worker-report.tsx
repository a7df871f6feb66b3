import type { Operations } from '@cofferdam/client'
import { ToneDot } from '../../parts/standing-dot.tsx'
import { count, counted } from '../../words/figures.ts'

type Report = Operations['listBackends']['result']['backends'][number]['workers'][number]['report']
type Pool = NonNullable<Report['pool']>

/** A report may come from a worker of another version: nothing in it is taken for granted. */
const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === 'string') : []

/** `why` and `fix` of a probe that failed. Null where they are not told. */
function told(probe: Report['probe'], name: 'why' | 'fix'): string | null {
  const value: unknown = Reflect.get(probe, name)
  return typeof value === 'string' ? value : null
}

const wordsOf = (value: unknown): string =>
  Array.isArray(value)
    ? texts(value).join(', ')
    : value === true
      ? 'yes'
      : value === false
        ? 'no'
        : String(value)

const CIRCUITS = {
  open: 'Circuit open: its last sandboxes did not open. It gets no executions for some seconds.',
  'half-open': 'Circuit half-open: the next execution tries it again.',
}

function poolWords({ idle, taken_warm: warm, taken_cold: cold, warm_failed: failed }: Pool): string {
  const started = warm + cold === 0 ? '' : ` · ${count(warm)} of ${count(warm + cold)} started warm`
  const lost = failed === 0 ? '' : ` · ${count(failed)} failed`
  return counted(idle, 'warm sandbox', 'warm sandboxes') + started + lost
}

/** What one worker says about one backend. */
export function WorkerReport({ worker, report }: { worker: string; report: Report }) {
  const capabilities: unknown = Reflect.get(report, 'capabilities')
  const features = texts(Reflect.get(report.probe, 'features'))
  const known =
    typeof capabilities === 'object' && capabilities !== null
      ? Object.entries(capabilities).filter(([, value]) => value !== null && wordsOf(value) !== '')
      : []
  const why = told(report.probe, 'why')
  const fix = told(report.probe, 'fix')
  return (
    <li class="report">
      <div class="report-head">
        <span class="mono small">{worker}</span>
        <ToneDot tone={report.probe.ok ? 'ok' : 'bad'}>{report.probe.ok ? 'Works' : 'Does not work'}</ToneDot>
      </div>
      {why !== null && <p class="tone-bad">{why}</p>}
      {fix !== null && <p class="action">{fix}</p>}
      {report.circuit !== undefined && report.circuit !== 'closed' && (
        <p class="tone-warn">{CIRCUITS[report.circuit]}</p>
      )}
      {report.pool && <p class="muted small">{poolWords(report.pool)}</p>}
      {(features.length > 0 || known.length > 0) && (
        <details>
          <summary class="muted small">What it can do</summary>
          <ul class="features small">
            {features.map((feature) => (
              <li key={feature}>{feature}</li>
            ))}
          </ul>
          <dl class="facts">
            {known.map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{wordsOf(value)}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </li>
  )
}
