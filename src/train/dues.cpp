#include "dues.hpp"

namespace ringshard::train {

Dues dues_after(const config::Config& config, const EventSchedule& events, const Trainer& trainer,
                const StepNumbers& numbers) {
    Dues due{events.after(numbers.step, numbers.epoch, trainer.is_at_epoch_end())};
    for (size_t adapter = 0; adapter < numbers.adapters.size(); ++adapter) {
        const StepNumbers& mine = numbers.adapters[adapter];
        if (mine.step == 0) continue;  // it has ended
        const EventSchedule own(config, trainer.num_steps_of(adapter));
        const Due of_adapter =
            own.after(mine.step, mine.epoch, trainer.is_at_epoch_end_of(adapter));
        if (of_adapter.log) due.logged.push_back(adapter);
        if (of_adapter.evaluate) due.evaluated.push_back(adapter);
        due.run.log = due.run.log || of_adapter.log;
        due.run.save = due.run.save || of_adapter.save;
    }
    return due;
}

}  // namespace ringshard::train
