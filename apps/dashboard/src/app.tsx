import { session, sessionFailure, findSession, otherLink } from './api/session.ts'
import { Loading, Problem } from './parts/problem.tsx'
import { OtherLinkDialog } from './pages/sign-in/other-link-dialog.tsx'
import { SignInPage } from './pages/sign-in/sign-in-page.tsx'
import { PAGES } from './pages/pages.ts'
import { Shell } from './shell/shell.tsx'

/** The pages if somebody is signed in, else the sign-in page. Until that is known, a wait or a failure. */
export function App() {
  const who = session.value
  if (who === null) return <SignInPage />
  const link = otherLink.value
  if (who !== undefined)
    return (
      <>
        <Shell pages={PAGES} />
        {link !== null && <OtherLinkDialog {...link} />}
      </>
    )
  const failure = sessionFailure.value
  return (
    <main class="sign-in">
      {failure === null ? (
        <Loading what="the session" lines={2} />
      ) : (
        <Problem failure={failure} retry={() => void findSession()} />
      )}
    </main>
  )
}
