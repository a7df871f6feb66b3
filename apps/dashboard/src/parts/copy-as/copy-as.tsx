import { useRef } from 'preact/hooks'
import { CopyButton } from '../copy-button.tsx'
import { SNIPPETS, type Asked } from './snippets.ts'

/** A menu that copies code for what the page shows. `asked` is called when one copies. */
export function CopyAs({ asked }: { asked: () => Asked }) {
  const menu = useRef<HTMLDetailsElement>(null)
  const close = (): void => {
    if (menu.current !== null) menu.current.open = false
  }
  return (
    <details
      ref={menu}
      class="menu"
      onFocusOut={({ relatedTarget }) => {
        if (relatedTarget instanceof Node && menu.current?.contains(relatedTarget) !== true) close()
      }}
      onKeyDown={({ key }) => {
        if (key !== 'Escape') return
        close()
        menu.current?.querySelector('summary')?.focus()
      }}
    >
      <summary class="button">Copy as</summary>
      <div class="menu-items">
        {SNIPPETS.map(({ name, of }) => (
          <CopyButton key={name} text={() => of(window.location.origin, asked())} label={`Copy as ${name}`}>
            {name}
          </CopyButton>
        ))}
      </div>
    </details>
  )
}
