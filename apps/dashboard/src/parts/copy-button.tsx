import { useEffect, useState } from 'preact/hooks'

/** How long the button says that it copied. */
const SAID_MS = 1500

/** Copies `text`. A function is called at the click. `label` is for people who do not see the icon. */
export function CopyButton(props: { text: string | (() => string); label: string; children?: string }) {
  const [said, setSaid] = useState<'copied' | 'failed' | null>(null)
  useEffect(() => {
    if (said === null) return undefined
    const timer = setTimeout(() => setSaid(null), SAID_MS)
    return () => clearTimeout(timer)
  }, [said])
  const copy = async (): Promise<void> => {
    try {
      const { text } = props
      await navigator.clipboard.writeText(typeof text === 'string' ? text : text())
      setSaid('copied')
    } catch {
      // The clipboard is only there on secure origins, and a browser may refuse it.
      setSaid('failed')
    }
  }
  const words = said === 'copied' ? 'Copied' : said === 'failed' ? 'Not allowed' : null
  return (
    <button
      type="button"
      class={props.children === undefined ? 'icon-button' : 'button'}
      aria-label={words ?? props.label}
      title={props.label}
      onClick={() => void copy()}
    >
      {words ?? props.children ?? <CopyIcon />}
    </button>
  )
}

const CopyIcon = () => (
  <svg class="line-icon" viewBox="0 0 16 16" aria-hidden="true">
    <path d="M5.5 5.5h8v8h-8zM10.5 5V2.5h-8v8H5" />
  </svg>
)
