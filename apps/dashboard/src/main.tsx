/** Starts the page. */
import { render } from 'preact'
import { followLinks } from './address/address.ts'
import { findSession } from './api/session.ts'
import { App } from './app.tsx'
import { keepTime } from './parts/when.tsx'
import './style/tokens.css'
import './style/base.css'
import './style/shell.css'
import './style/sign-in.css'
import './style/parts.css'
import './style/panels.css'
import './style/modal.css'
import './style/tables.css'
import './style/executions.css'
import './style/execution.css'
import './style/timeline.css'
import './style/output.css'
import './style/ansi.css'
import './style/result.css'
import './style/artifacts.css'
import './style/fleet.css'
import './style/tenants.css'
import './style/queue.css'
import './style/charts.css'
import './style/rerun.css'
import './style/playground.css'

const root = document.getElementById('app')
if (root === null) throw new Error('index.html has no #app')
// These two work until the page is closed, so nobody ends them.
followLinks()
keepTime()
render(<App />, root)
void findSession()
