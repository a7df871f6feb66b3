import type { ComponentChildren } from 'preact'

/** Buttons of which one is pressed. `label` says what is chosen. */
export function Segments<Option extends string>(props: {
  label: string
  options: readonly Option[]
  chosen: Option
  words: (option: Option) => ComponentChildren
  onChoose: (option: Option) => void
}) {
  return (
    <span class="segments" role="group" aria-label={props.label}>
      {props.options.map((option) => (
        <button
          key={option}
          type="button"
          aria-pressed={option === props.chosen}
          onClick={() => props.onChoose(option)}
        >
          {props.words(option)}
        </button>
      ))}
    </span>
  )
}
