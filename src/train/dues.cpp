#include "dues.hpp"

namespace ringshard::train {

Dues dues_after(const config::Config& config, const EventSchedule& events, const Trainer& trainer,
                const StepNumbers& numbers) {
    Dues due{events.after(numbers.step, numbers.epoch, trainer.is_at_epoch_end())};
    for (size_t number = 0; number < numbers.learners.size(); ++number) {
        const StepNumbers& mine = numbers.learners[number];
        if (mine.step == 0) continue;  // it has ended
        const Learner& learner = trainer.learners()[number];
        const EventSchedule own(config, learner.num_steps());
        const Due of_learner = own.after(mine.step, mine.epoch, learner.is_at_epoch_end());
        if (of_learner.log) due.logged.push_back(number);
        if (of_learner.evaluate) due.evaluated.push_back(number);
        due.run.log = due.run.log || of_learner.log;
        due.run.save = due.run.save || of_learner.save;
    }
    return due;
}

}  // namespace ringshard::train
