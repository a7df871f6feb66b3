import {
  choices,
  choose,
  isForgotten,
  offsetAt,
  OPTIONS,
  type Choice,
  type Choices,
} from '../../choices/choices.ts'
import { Facts, Panel } from '../../parts/panel.tsx'
import { Segments } from '../../parts/segments.tsx'
import { now } from '../../parts/when.tsx'
import { dayAndClock, zoneName } from '../../words/moments.ts'

const WORDS: { readonly [Name in Choice]: Readonly<Record<Choices[Name], string>> } = {
  scheme: { system: 'As the system', light: 'Light', dark: 'Dark' },
  density: { comfortable: 'Comfortable', compact: 'Compact' },
  zone: { utc: 'UTC', local: 'This browser’s zone' },
}

/** Choices that apply only in this browser. */
export function LookPanel() {
  const offset = offsetAt(now.value)
  const isStill = window.matchMedia('(prefers-reduced-motion: reduce)').matches
  return (
    <Panel title="In this browser" class="look">
      <Facts
        of={[
          ['Colours', <OneOf name="scheme" label="Colours" />],
          ['Density', <OneOf name="density" label="Density" />],
          ['Times', <OneOf name="zone" label="Times" />],
          ['Now', <span class="number">{`${dayAndClock(now.value, offset)} ${zoneName(offset)}`}</span>],
          ['Motion', `as the system: ${isStill ? 'off' : 'on'}`],
        ]}
      />
      <p class="muted small">
        {isForgotten.value
          ? 'This browser keeps nothing for this page, so these choices end with it.'
          : 'Times within a day are told from now. Point at a time to see it exactly, in UTC.'}
      </p>
    </Panel>
  )
}

function OneOf<Name extends Choice>({ name, label }: { name: Name; label: string }) {
  return (
    <Segments
      label={label}
      options={OPTIONS[name]}
      chosen={choices.value[name]}
      words={(option) => WORDS[name][option]}
      onChoose={(option) => choose(name, option)}
    />
  )
}
