/**
 * How the pages look in this browser. Each choice is an attribute of the root element; the styles read
 * `scheme` and `density`. The browser keeps the choices, and first-paint.ts sets the attributes again at the
 * next load.
 */
import { signal } from '@preact/signals'

export interface Choices {
  scheme: 'system' | 'light' | 'dark'
  density: 'comfortable' | 'compact'
  /** The zone of the times that are shown. */
  zone: 'utc' | 'local'
}
export type Choice = keyof Choices

/** The options of each choice, the default first. */
export const OPTIONS: { readonly [Name in Choice]: readonly [Choices[Name], ...Choices[Name][]] } = {
  scheme: ['system', 'light', 'dark'],
  density: ['comfortable', 'compact'],
  zone: ['utc', 'local'],
}

/** The kept option, or the default: what was kept may be of another release, or changed by hand. */
function found<Name extends Choice>(name: Name): Choices[Name] {
  const [usual, ...others] = OPTIONS[name]
  const kept = document.documentElement.dataset[name]
  return others.find((option) => option === kept) ?? usual
}

export const choices = signal<Choices>({
  scheme: found('scheme'),
  density: found('density'),
  zone: found('zone'),
})

/** Whether the browser refused to keep a choice. The choice then applies until the page is loaded again. */
export const isForgotten = signal(false)

/** Applies a choice at once, and keeps it. */
export function choose<Name extends Choice>(name: Name, option: Choices[Name]): void {
  choices.value = { ...choices.value, [name]: option }
  document.documentElement.dataset[name] = option
  try {
    window.localStorage.setItem(`cofferdam.${name}`, option)
  } catch {
    isForgotten.value = true
  }
}

/** How far the shown times are from UTC at a moment, in minutes. */
export const offsetAt = (atMs: number): number =>
  choices.value.zone === 'utc' ? 0 : -new Date(atMs).getTimezoneOffset()
