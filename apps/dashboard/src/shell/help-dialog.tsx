import { signal } from '@preact/signals'
import { Modal } from '../parts/modal.tsx'
import type { PageEntry } from './page-table.ts'

/** Whether the list of keys is open. */
export const showsHelp = signal(false)

/** Which keys there are. */
export function HelpDialog({ pages }: { pages: readonly PageEntry[] }) {
  if (!showsHelp.value) return null
  const keys: ReadonlyArray<readonly [string, string]> = [
    ['/', 'Search'],
    ['j', 'Next row'],
    ['k', 'Previous row'],
    ['Enter', 'Open the row'],
    ...pages.map(({ key, title }) => [`g ${key}`, title] as const),
    ['?', 'This list'],
  ]
  return (
    <Modal title="Keys" onClose={() => (showsHelp.value = false)}>
      <dl class="keys">
        {keys.map(([key, what]) => (
          <div key={key}>
            <dt>
              {key.split(' ').map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Modal>
  )
}
