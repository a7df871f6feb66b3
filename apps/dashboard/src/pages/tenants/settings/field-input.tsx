import { lineProblem, type Field } from './fields.ts'

/** One field of a form. The browser checks its bounds. */
export function FieldInput(props: { field: Field; text: string; onText: (text: string) => void }) {
  const { field, text, onText } = props
  if (field.kind === 'flag')
    return (
      <label class="setting flag">
        <input
          type="checkbox"
          checked={text === 'true'}
          onChange={(event) => onText(String(event.currentTarget.checked))}
        />
        <span>{field.words}</span>
      </label>
    )
  return (
    <label class={field.kind === 'lines' ? 'setting lines' : 'setting'}>
      <span>{field.words}</span>
      {field.kind === 'lines' ? (
        <textarea
          rows={3}
          value={text}
          placeholder={field.empty}
          spellcheck={false}
          autocomplete="off"
          ref={(box) => box?.setCustomValidity(lineProblem(field, text))}
          onInput={(event) => onText(event.currentTarget.value)}
        />
      ) : field.kind === 'choice' ? (
        <select value={text} onChange={(event) => onText(event.currentTarget.value)}>
          {field.choices?.map((choice) => (
            <option key={choice} value={choice}>
              {choice || field.empty}
            </option>
          ))}
        </select>
      ) : (
        <input
          type="number"
          value={text}
          min={field.min}
          max={field.max}
          step={field.fraction === true ? 'any' : 1}
          placeholder={field.empty}
          required={field.empty === undefined}
          autocomplete="off"
          onInput={(event) => onText(event.currentTarget.value)}
        />
      )}
      {field.note !== undefined && <span class="muted small">{field.note}</span>}
    </label>
  )
}
