import { useState } from 'preact/hooks'
import { asFailure, type Failure } from '../../api/failure.ts'
import { sessionFailure, signIn } from '../../api/session.ts'

/** Asks for an API key once. The server exchanges it for a cookie; the page keeps nothing. */
export function SignInPage() {
  const [failure, setFailure] = useState<Failure | null>(sessionFailure.value)
  const [isBusy, setBusy] = useState(false)
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault()
    const form = event.currentTarget
    const field = form instanceof HTMLFormElement ? form.elements.namedItem('api_key') : null
    if (!(field instanceof HTMLInputElement) || field.value.trim() === '') return
    setBusy(true)
    try {
      await signIn(field.value.trim())
    } catch (error) {
      setFailure(asFailure(error))
      field.select()
    } finally {
      setBusy(false)
    }
  }
  return (
    <main class="sign-in">
      <form class="sign-in-card" onSubmit={(event) => void submit(event)}>
        <h1>
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d="M2 3v10M6 3v10M10 3v10M14 3v10M2 8h12" />
          </svg>
          Cofferdam
        </h1>
        <label for="api_key">API key</label>
        <input
          id="api_key"
          name="api_key"
          type="password"
          autocomplete="current-password"
          placeholder="cfd_…"
          spellcheck={false}
          maxLength={512}
          required
          aria-describedby="sign-in-note"
        />
        {failure !== null && (
          <p class="sign-in-failure" role="alert">
            {failure.message} {failure.hint}
          </p>
        )}
        <button type="submit" class="button primary" disabled={isBusy}>
          {isBusy ? 'Signing in' : 'Sign in'}
        </button>
        <p id="sign-in-note" class="muted small">
          The key is exchanged for a session of this browser and kept nowhere. A tenant’s key shows that
          tenant; an admin key shows the fleet. <code>cofferdam tenant new-key</code> makes one.
        </p>
      </form>
    </main>
  )
}
