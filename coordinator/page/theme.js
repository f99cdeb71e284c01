// The theme chosen last, before anything is drawn.  Private windows may refuse storage: then "auto".
'use strict';

(function () {
  const names = ['auto', 'light', 'dark'];
  let theme = 'auto';
  try {
    theme = localStorage.getItem('snowfleet-theme') || 'auto';
  } catch (refused) { /* auto */ }
  if (!names.includes(theme)) theme = 'auto';

  function apply() {
    document.documentElement.dataset.theme = theme;
    const button = document.getElementById('theme');
    if (button) {
      button.textContent = '◐ ' + theme;
      button.setAttribute('aria-label', 'Theme: ' + theme);
    }
    document.dispatchEvent(new Event('themechange'));
  }

  apply();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', apply);
  document.addEventListener('DOMContentLoaded', () => {
    apply();
    document.getElementById('theme').addEventListener('click', () => {
      theme = names[(names.indexOf(theme) + 1) % names.length];
      try {
        localStorage.setItem('snowfleet-theme', theme);
      } catch (refused) { /* for this time only */ }
      apply();
    });
  });
})();
