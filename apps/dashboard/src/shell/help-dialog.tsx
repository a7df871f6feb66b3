import { Modal } from '../parts/modal.tsx'
import type { PageEntry } from './page-table.ts'

/** Which keys there are. */
export function HelpDialog({ pages, onClose }: { pages: readonly PageEntry[]; onClose: () => void }) {
  const keys: ReadonlyArray<readonly [string, string]> = [
    ['/', 'Search'],
    ['j', 'Next row'],
    ['k', 'Previous row'],
    ['Enter', 'Open the row'],
    ...pages.map(({ key, title }) => [`g ${key}`, title] as const),
    ['?', 'This list'],
  ]
  return (
    <Modal title="Keys" onClose={onClose}>
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
